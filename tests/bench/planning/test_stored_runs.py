"""The stopping rules choose each step of stored runs again."""

from __future__ import annotations

import itertools

import pytest

from offload.engine import journal
from offload.engine.plan import LongRun, Round, Step
from offload.engine.record import WINDOW, Record
from offload.engine.run import next_step
from tests import ROOT


def step_of(record: Record) -> Step:
    trial = record.trial
    if trial.kind != WINDOW:
        return LongRun(trial.case_index or 0)
    return Round(trial.block or 0, trial.round or 0, trial.attempt)


@pytest.mark.parametrize(
    "name",
    [
        "example",
        "example-fastapi_strawberry",
        "example-graphene_django",
        "example-requests_aiohttp",
    ],
)
def test_the_rule_of_a_stored_run_chooses_each_of_its_steps(name: str) -> None:
    folder = ROOT / "results" / name
    plan = journal.load_plan(folder)
    records: list[Record] = []
    for step, own in itertools.groupby(journal.read_planned(folder, plan), key=step_of):
        assert next_step(plan, records) == step
        records += own
    assert next_step(plan, records) is None
