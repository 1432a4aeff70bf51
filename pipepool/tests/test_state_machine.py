"""No task is lost and none runs twice, whatever is submitted, revoked, cancelled and killed.

`make test` runs the same few examples each time, `make test-all` different ones each time. It
prints their seed, and `SEED=123` repeats them. `STEPS=10000` sets the number of steps.
"""

from __future__ import annotations

import os
import random
import traceback
from multiprocessing import resource_sharer

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from pool_tests import invariants as known
from pool_tests.invariants import DelayedInvariants
from pool_tests.machine import Machine
from pool_tests.surroundings import served_manager

STEPS = int(os.environ.get("STEPS", "0"))
SEED = int(os.environ.get("SEED", "0"))
EACH = 10  # steps of one example

pytestmark = [
    pytest.mark.server,  # starts worker processes
    pytest.mark.timeout(max(900, STEPS)),
]


class Pool(Machine):
    always = (
        known.queue_length_is_its_number_of_tasks,
        known.counts_match_the_tasks_of_the_workers,
        known.stats_count_each_task_once,
        known.only_active_workers_are_open,
        known.load_is_the_sum_of_task_costs,
        known.open_workers_without_tasks_are_idle,
        known.idle_workers_hold_no_task,
        known.idle_workers_are_open,
        known.idle_workers_are_listed_once,
        known.no_task_is_queued_while_a_worker_is_idle,
    )
    eventually = (
        DelayedInvariants.no_task_waits_behind_a_long_one_while_a_worker_is_idle,
        DelayedInvariants.no_task_is_queued_beyond_its_queue_timeout,
        DelayedInvariants.no_result_waits_for_the_next_task,
    )


def run(machine: type[Machine], steps: int, seed: int | None = None) -> None:
    """Run the same examples each time, or those of a seed."""
    seed = SEED or seed
    if seed is not None:
        print(f"SEED={seed} STEPS={STEPS or steps} repeats these examples of {machine.__name__}")
        machine = hypothesis.seed(seed)(machine)
    example_settings = settings(
        max_examples=max(1, (STEPS or steps) // EACH),
        stateful_step_count=EACH,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        derandomize=seed is None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    try:
        with served_manager():
            run_state_machine_as_test(machine, settings=example_settings)
        return
    except (AssertionError, Flaky):
        text = traceback.format_exc()
    finally:
        resource_sharer.stop(10)  # of the queues
    raise ExampleFailed(text)  # without the frames, which would keep the pool's memory


class ExampleFailed(Exception):
    """The traceback of an example that failed, as text."""


def test_no_task_is_lost_or_runs_twice() -> None:
    run(Pool, 80)


@pytest.mark.slow
def test_no_task_is_lost_or_runs_twice_with_a_random_seed() -> None:
    run(Pool, 2000, random.randrange(1, 2**32))
