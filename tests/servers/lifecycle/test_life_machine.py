"""Whatever happens to a server in whatever order, it keeps its promises: a state machine.

`make test` runs the same few examples each time, `pytest --all` different ones each time. It prints
their seed, and `SEED=123` repeats them. `EXAMPLES=100` sets their number.
"""

from __future__ import annotations

import os
import random
import tempfile

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from tests.servers.lifecycle.life_machine import LifeMachine

pytestmark = pytest.mark.server

EXAMPLES = int(os.environ.get("EXAMPLES", "0"))
SEED = int(os.environ.get("SEED", "0"))
STEPS = 8  # of one example


@pytest.fixture(autouse=True)
def _temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have temporary files where pytest removes them: a killed server leaves its own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("t")))
    monkeypatch.setattr(tempfile, "tempdir", None)


def run(machine: type[LifeMachine], examples: int, seed: int) -> None:
    """Run the examples of a seed."""
    seed, examples = SEED or seed, EXAMPLES or examples
    print(f"SEED={seed} EXAMPLES={examples} repeats these examples of {machine.__name__}")
    run_state_machine_as_test(
        hypothesis.seed(seed)(machine),
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.timeout(120)
def test_a_server_keeps_its_promises_in_any_order() -> None:
    run(LifeMachine, 2, 29)  # a seed whose examples have every rule


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_server_keeps_its_promises_in_any_order_with_a_random_seed() -> None:
    run(LifeMachine, 60, random.randrange(1, 2**32))


class PlainMachine(LifeMachine):
    """A server of the standard library's strategy, without our promises."""

    servers = ("plain_threads",)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_server_that_keeps_no_promise_is_found() -> None:
    with pytest.raises((AssertionError, Flaky)):
        run(PlainMachine, 10, 1)
