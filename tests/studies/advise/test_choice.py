"""The choice between measured set-ups: each rule with an example on either side of its limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offload.studies.advise.choice import choose, dominates
from offload.studies.advise.evidence import LOOPS, POOL, THREADS, Evidence, Latency, Question, Setup

NOISE = (0.99, 1.0, 1.01)
LOOP, PREFORK = Setup("loop", LOOPS), Setup("prefork", LOOPS, 2)
PREFORK_25 = Setup("prefork", LOOPS, 25)
ONE_32, TWO_32 = Setup("threads", THREADS, 1, 32), Setup("threads", THREADS, 2, 32)
POOL_8, PIPES_8 = Setup("processes", POOL, 1, 8), Setup("pipes", POOL, 1, 8)


def measured(
    setup: Setup, rate: float, mib: float | None, p99_s: float | None = None, failed: float = 0.0
) -> Evidence:
    latencies = ()
    if p99_s is not None:
        latencies = (Latency(100.0, 0.99, p99_s, p99_s, p99_s, failed=failed),)
    rates = {number: rate * noise for number, noise in enumerate(NOISE, start=1)}
    return Evidence(setup, rates, mib, latencies=latencies)


def chosen(*found: Evidence, blocks_s: float = 0.0, **question: object) -> str:
    choice = choose(Question(**question), found, blocks_s)  # type: ignore[arg-type]
    assert choice is not None
    return choice.best.setup.name


def test_two_processes_of_threads_win_over_many_processes() -> None:
    """The measured figures of a call that waits 20 ms and computes 1 ms, with 200 users."""
    prefork = measured(PREFORK_25, 1084, 210, 0.763)
    threads = measured(TWO_32, 1301, 50, 0.281)
    one = measured(ONE_32, 889, 28)
    assert dominates(threads, prefork)
    assert chosen(prefork, threads, one) == "threads 2x32"


@pytest.mark.parametrize("rate", [1250.0, 1301.0, 1350.0])
def test_of_two_equal_servers_the_usual_one_is_chosen(rate: float) -> None:
    other = measured(replace(TWO_32, server="gunicorn_gthread"), rate, 49)
    assert chosen(other, measured(TWO_32, 1301, 50)) == "threads 2x32"


@pytest.mark.parametrize(
    ("rate", "name"), [(2650, "granian_wsgi 2x4"), (3600, "gunicorn_gevent x2")]
)
def test_greenlets_must_carry_certainly_more_than_threads(rate: float, name: str) -> None:
    greenlets = measured(Setup("gunicorn_gevent", LOOPS, 2), rate, 89)
    assert chosen(greenlets, measured(Setup("granian_wsgi", THREADS, 2, 4), 2850, 85)) == name


@pytest.mark.parametrize(("loop_rate", "name"), [(3738, "loop"), (2700, "prefork x2")])
def test_the_loop_is_enough_for_a_coroutine_if_it_carries_90_percent(
    loop_rate: float, name: str
) -> None:
    loop, prefork = measured(LOOP, loop_rate, 33), measured(PREFORK, 4028, 63)
    assert chosen(prefork, loop, measured(ONE_32, 575, 40)) == name


def test_a_required_rate_needs_the_cheapest_set_up_that_carries_it() -> None:
    threads, one = measured(TWO_32, 1300, 55), measured(ONE_32, 540, 21)
    assert chosen(threads, one, rate=300.0) == "threads 1x32"
    assert chosen(threads, one, rate=440.0) == "threads 2x32"


def test_a_rate_that_nothing_carries_is_missed_by_the_best() -> None:
    choice = choose(Question(rate=5000.0), [measured(TWO_32, 1300, 55)], 0.0)
    assert choice is not None
    assert (choice.best.setup, choice.missed) == (TWO_32, "rate")


def test_memory_is_measured_and_limits() -> None:
    sixteen, two = measured(TWO_32, 1000, 783), measured(ONE_32, 700, 143)
    assert chosen(sixteen, two, memory_mib=512.0) == "threads 1x32"


@pytest.mark.parametrize(("p99_s", "name"), [(0.05, "threads 2x32"), (0.2, "threads 1x32")])
def test_a_p99_that_is_missed_excludes(p99_s: float, name: str) -> None:
    slow, quick = measured(ONE_32, 1000, 20, 0.1), measured(TWO_32, 1000, 50, 0.04)
    assert chosen(slow, quick, p99_s=p99_s, rate=100.0) == name


def test_connections_limit_the_slots_but_not_the_loops() -> None:
    assert chosen(measured(TWO_32, 1000, 50), measured(ONE_32, 900, 40), connections=32) == (
        "threads 1x32"
    )
    assert chosen(measured(LOOP, 1000, 20), connections=32) == "loop"


@pytest.mark.parametrize(("blocks_s", "name"), [(0.004, "prefork x2"), (0.006, "processes x8")])
def test_a_call_that_blocks_the_loop_for_long_goes_elsewhere(blocks_s: float, name: str) -> None:
    prefork, pool = measured(PREFORK, 300, 40), measured(POOL_8, 290, 140)
    assert chosen(prefork, pool, blocks_s=blocks_s) == name


def test_a_blocked_loop_stays_if_everything_else_is_slower() -> None:
    prefork, pool = measured(PREFORK, 300, 40), measured(POOL_8, 200, 140)
    assert chosen(prefork, pool, blocks_s=0.006) == "prefork x2"


def test_the_standard_pool_wins_a_tie_with_ours() -> None:
    pool, pipes = measured(POOL_8, 290, 140), measured(PIPES_8, 300, 145)
    choice = choose(Question(), [pipes, pool], 0.0)
    assert choice is not None
    assert choice.best.setup == POOL_8
    assert choice.tie is not None
    assert choice.tie.setup == PIPES_8


@pytest.mark.parametrize(("rate", "name"), [(91, "prefork x2"), (89, "threads 2x32")])
def test_capacities_that_may_be_the_same_do_not_decide_between_loops_and_threads(
    rate: float, name: str
) -> None:
    noisy = {1: 0.7, 2: 1.0, 3: 1.4}
    threads = replace(measured(TWO_32, 100, 40), rates={n: 100 * f for n, f in noisy.items()})
    assert chosen(threads, measured(PREFORK, rate, 40)) == name


def test_the_choice_is_one_whose_response_times_are_known() -> None:
    slow, other = measured(PREFORK, 100, 40, 0.3), measured(ONE_32, 99, 40)
    assert chosen(slow, measured(TWO_32, 99, 40, 0.1), other) == "threads 2x32"
    assert chosen(slow, other, p99_s=0.2) == "threads 1x32"


@pytest.mark.parametrize(("p99_s", "workers"), [(0.18, 64), (0.2, 32)])
def test_a_much_longer_p99_decides_a_tie_even_if_it_is_not_certain(
    p99_s: float, workers: int
) -> None:
    more = measured(replace(TWO_32, workers=64), 1136, 65)
    unsure = Latency(100.0, 0.99, p99_s, 0.09, 0.26)
    more = replace(more, latencies=(unsure,))
    assert chosen(more, measured(TWO_32, 1087, 64, 0.126)) == f"threads 2x{workers}"


def test_what_fails_is_left_out() -> None:
    failing = Evidence(TWO_32, {1: 2000.0}, 10, problem="requests fail")
    works = measured(ONE_32, 500, 30)
    choice = choose(Question(), [failing, works], 0.0)
    assert choice is not None
    assert choice.best is works
    assert choice.left_out == {"threads 2x32": "fails under load"}
    assert choose(Question(), [failing], 0.0) is None


def test_less_than_16_mib_is_no_difference() -> None:
    small, large = measured(LOOP, 1000, 10), measured(PREFORK, 1000, 25)
    assert not dominates(small, large)
    assert dominates(measured(LOOP, 1000, 20), measured(PREFORK, 1000, 41))


def test_a_slower_set_up_dominates_nothing() -> None:
    assert not dominates(measured(LOOP, 940, 10), measured(PREFORK, 1000, 100))
    assert dominates(measured(LOOP, 960, 10), measured(PREFORK, 1000, 100))
