"""Servers in turn: each that is here has one slice in every round, and who is not is named."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from offload.bench.experiments import hops, interleaved
from offload.bench.records import journal
from offload.suites import Case
from tests.installed import MISSING

pytestmark = pytest.mark.server
SERVERS = (hops.DIRECT, hops.THREADS, "interpreters")  # the last one is not in every Python


@pytest.mark.slow
def test_each_server_has_one_slice_in_every_round() -> None:
    told: list[str] = []
    cases = [Case(server, "noop_sync", users=2, keep_alive=True) for server in SERVERS]
    found = interleaved.measure_interleaved(cases, "executors", 0.3, 0.0, told.append)
    here = [server for server in SERVERS if not MISSING[server]]
    assert set(found.missing) == {*SERVERS} - {*here}
    counts = Counter((r.case.server, r.trial.round) for r in found.records)
    assert counts == {
        (server, n): 1 for server in here for n in range(1, interleaved.MIN_ROUNDS + 1)
    }
    assert {r.trial.order for r in found.records} == {*range(1, len(here) + 1)}
    assert len(told) == interleaved.MIN_ROUNDS
    assert len(journal.read(found.folder)) == len(found.records)
    assert [hop.server for hop in hops.summarize(found.records)][:2] == [hops.DIRECT, hops.THREADS]


def dying(folder: Path) -> Case:
    """Give a case whose server ends as soon as it imports its task."""
    (folder / "dies.py").write_text("import os\nos._exit(7)\ndef f(): ...\n")
    return Case(hops.THREADS, f"{folder}/dies.py:f")


def test_a_server_that_does_not_start_is_left_out_with_its_reason(tmp_path: Path) -> None:
    cases = [Case(hops.DIRECT, "sleep_short_sync", users=2, keep_alive=True), dying(tmp_path)]
    found = interleaved.measure_interleaved(cases, "executors", 0.3, 0.0, lambda _: None)
    assert found.missing["threads"].startswith("threads does not start: 3/")
    assert [r.case.server for r in found.records] == [hops.DIRECT] * interleaved.MIN_ROUNDS


def test_without_any_server_there_is_one_line_and_no_record(tmp_path: Path) -> None:
    told: list[str] = []
    found = interleaved.measure_interleaved([dying(tmp_path)], "executors", 0.3, 0.0, told.append)
    assert (found.records, found.folder.exists()) == ((), False)
    assert told == ["no server is left to be loaded"]
