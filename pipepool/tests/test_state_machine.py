"""No task is lost and none runs twice, whatever is submitted, recalled, cancelled and killed.

`make test` runs the same few examples each time, `make test-all` others each time; it prints their
seed, and `SEED=123` repeats them. `STEPS=10000` makes them as long as one likes.
"""

from __future__ import annotations

import os
import random
import traceback

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from pool_tests import invariants as known
from pool_tests.invariants import Patience
from pool_tests.machine import Machine

pytestmark = pytest.mark.server  # starts worker processes

STEPS = int(os.environ.get("STEPS", "0"))
SEED = int(os.environ.get("SEED", "0"))
EACH = 10  # steps of one example


class Pool(Machine):
    always = (
        known.the_queue_counts_those_who_wait,
        known.the_counts_are_those_of_the_links,
        known.only_active_workers_are_open,
        known.the_load_is_that_of_the_tasks,
        known.who_holds_nothing_is_idle,
        known.who_is_idle_holds_nothing,
        known.who_is_idle_is_open,
        known.who_is_idle_is_so_once,
        known.nothing_is_queued_while_a_worker_idles,
    )
    not_for_long = (
        Patience.nothing_waits_behind_a_long_task_while_a_worker_idles,
        Patience.nothing_is_queued_for_longer_than_it_may,
    )


def run(machine: type[Machine], steps: int, seed: int | None = None) -> None:
    """Run the same examples each time, or those of a seed."""
    chosen = SEED or seed
    if chosen is not None:
        print(f"SEED={chosen} STEPS={STEPS or steps} repeats these examples of {machine.__name__}")
        machine = hypothesis.seed(chosen)(machine)
    chosen_settings = settings(
        max_examples=max(1, (STEPS or steps) // EACH),
        stateful_step_count=EACH,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        derandomize=chosen is None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(machine, settings=chosen_settings)
        return
    except (AssertionError, Flaky):
        what = traceback.format_exc()
    raise Wrong(what)  # without the frames, which would keep the pool's memory


class Wrong(Exception):
    """What an example has shown, in words."""


def test_no_task_is_lost_or_doubled_whatever_happens() -> None:
    run(Pool, 150)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_task_is_lost_or_doubled_in_examples_of_any_seed() -> None:
    run(Pool, 2000, random.randrange(1, 2**32))
