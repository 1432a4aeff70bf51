"""The model predicts the rate of each strategy from the costs of one call."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offload.bench.advice.inputs.overhead import MEASURING_CORES, Overhead
from offload.bench.advice.inputs.probe import KEPT_PAGES, PROCESSES, THREADS, Probe
from offload.bench.advice.prediction import limits
from offload.bench.advice.prediction.model import (
    IDLE_WITH_MORE_WORKERS,
    QUEUED_USERS,
    QUEUED_USERS_PREFORK,
    Model,
    Prediction,
)
from offload.bench.advice.prediction.shared_cores import IN_STEP_PREFORK, shared_rate
from offload.bench.advice.question_file import Question
from tests.bench.advice.probes import CORES, OVERHEADS, coroutine, model, point, probe

FREE = CORES - MEASURING_CORES  # cores
SLEEP = probe(wait_s=0.2, cpu_s=0.0005, hold=0.002)
PYTHON = probe(wait_s=0.0, cpu_s=0.05, hold=1.0)
HASH = probe(wait_s=0.0, cpu_s=0.05, hold=0.01)
TINY = probe(wait_s=0.0, cpu_s=0.00001, hold=1.0)
MIXED = probe(wait_s=0.05, cpu_s=0.05, hold=0.5)


def best_size(known: Probe, strategy: str) -> Prediction:
    found = model(known).best_size(strategy)
    assert found is not None
    return found


DOUBLED = {  # the overheads of calls that wait are twice as large
    name: replace(each, waiting=each.scaled(2.0)) if name != "loop" else each
    for name, each in OVERHEADS.items()
}


def test_calls_that_compute_in_short_bursts_do_not_run_in_step() -> None:
    known = probe(wait_s=0.1, cpu_s=0.005, hold=0.005 / 0.105)
    fetches = replace(known, call=replace(known.call, switches=8.0))
    assert model(fetches).predict("threads", 25).rate > model(known).predict("threads", 25).rate


def test_threads_that_hold_the_gil_longer_than_its_switch_interval_run_in_step() -> None:
    serial_s = 0.006 + OVERHEADS["threads"].serial_s
    long = model(probe(wait_s=0.2, cpu_s=0.006, hold=0.006 / 0.206)).predict("threads", 25)
    assert long.rate == pytest.approx(25 / (0.2 + 25 * serial_s), rel=0.02)
    short = model(probe(wait_s=0.2, cpu_s=0.002, hold=0.002 / 0.202)).predict("threads", 25)
    assert short.rate > 25 / (0.2 + 25 * (0.002 + OVERHEADS["threads"].serial_s))


def test_calls_that_need_more_cpu_time_wait_as_long_as_before() -> None:
    then = next(p.cpu_s for p in MIXED.of_kind(PROCESSES) if p.count == MIXED.busy_processes)
    known = MIXED.with_cpu_time(2 * then)
    assert (known.call.wait_s, known.call.cpu_s) == pytest.approx((0.05, 0.1))
    assert known.call.held_s == pytest.approx(2 * MIXED.call.held_s)
    assert MIXED.with_cpu_time(then) == MIXED
    crowded = (point(PROCESSES, 2, 20.0, 0.1), point(PROCESSES, 4, 40.0, 0.05))
    noisy = replace(PYTHON, points=crowded).with_cpu_time(0.08)  # measured at different speeds
    assert model(noisy).predict("pipes", 2).rate == pytest.approx(
        model(PYTHON.with_cpu_time(0.08)).predict("pipes", 2).rate, rel=0.02
    )
    assert replace(MIXED, points=()).with_cpu_time(1.0).call == MIXED.call
    computing = model(PYTHON).predict("pipes", 2).rate
    slower = model(PYTHON.with_cpu_time(0.1)).predict("pipes", 2).rate
    assert slower == pytest.approx(computing / 2, rel=0.01)
    waiting = model(SLEEP).predict("threads", 4).rate
    slower = model(SLEEP.with_cpu_time(0.001)).predict("threads", 4).rate
    assert slower == pytest.approx(waiting, rel=0.01)
    twice = coroutine(0.05, 0.004, 25).with_cpu_time(0.008)
    assert (twice.on_loop_s, twice.awaited_s) == pytest.approx((0.008, 0.05))


def test_the_calls_between_rounds_keep_the_cores_busy_if_any_number_of_processes_does() -> None:
    assert (PYTHON.busy_processes, SLEEP.busy_processes) == (CORES, 16)
    assert MIXED.busy_processes == 16  # two processes wait for half of the time


def test_a_prediction_uses_the_overhead_at_the_speed_of_the_machine() -> None:
    known = {name: replace(each, python_s=0.03) for name, each in OVERHEADS.items()}
    question = Question(SLEEP, known, 25)  # its probe had the same speed
    slower = replace(question, python_s=0.06)
    ratio = slower.model.overheads["pipes"].cpu_s / question.model.overheads["pipes"].cpu_s
    assert ratio == pytest.approx(2.0)


def test_a_prediction_uses_the_cpu_time_between_the_rounds() -> None:
    question = Question(PYTHON, OVERHEADS, 25)
    then = question.model.predict("pipes", 2).rate
    now = replace(question, busy_cpu_s=(0.05, 0.15)).model.predict("pipes", 2).rate
    assert now == pytest.approx(then * 0.05 / 0.075, rel=0.01)  # the harmonic mean


def test_waiting_calls_need_as_many_threads_as_users() -> None:
    best = best_size(SLEEP, "threads")
    assert (best.workers, best.limit) == (25, limits.USERS)
    queued_s = QUEUED_USERS * 23 * (0.0005 + OVERHEADS["threads"].cpu_s) / FREE
    assert best.rate == pytest.approx(25 / (0.2012 + queued_s), rel=0.01)
    four = model(SLEEP).predict("threads", 4)
    assert (four.rate, four.limit) == (pytest.approx(4 / 0.2012, rel=0.01), limits.WORKERS)


def test_a_request_waits_for_a_core_behind_some_of_the_other_users() -> None:
    fetch = probe(wait_s=0.05, cpu_s=0.001, hold=0.001 / 0.051)
    known = {name: Overhead(1e-6, 0.001) for name in OVERHEADS}
    queue_s = 23 * 0.002 / FREE  # requests of all users but two, on all cores
    for strategy, share in (
        ("pipes", QUEUED_USERS),
        ("prefork", QUEUED_USERS_PREFORK),
    ):
        found = model(fetch, overheads=known).predict(strategy, 25)
        assert found.limit == limits.USERS
        assert found.rate == pytest.approx(25 / (0.051 + share * queue_s), rel=0.02)


def test_the_rate_of_concurrent_calls_on_the_probes_loop_is_predicted_for_the_loop() -> None:
    awaits = coroutine(0.02, 0.0005, 25)
    none = {name: Overhead(1e-6, 1e-6) for name in OVERHEADS}
    for on_loop_s, limit in ((0.05, limits.TASK), (0.002, limits.TASK), (0.0005, limits.USERS)):
        rate = 25 / (max(0.0, 0.0205 - on_loop_s) + 25 * on_loop_s)
        points = (*awaits.points[:-1], point("loop", 25, rate, 0.0005, on_loop_s=on_loop_s))
        measured = probe(0.02, 0.0005, is_coroutine=True, points=points)
        for strategy in ("loop", "prefork"):
            found = model(measured, overheads=none).predict(strategy, 1)
            assert found.rate == pytest.approx(rate, rel=0.01)
            assert found.limit == limit


@pytest.mark.parametrize("wait_s", [0.001, 0.05, 0.3])
def test_one_user_of_a_loop_waits_for_nobody(wait_s: float) -> None:
    """Also if the call computes longer than it awaits."""
    found = model(coroutine(wait_s, 0.05, 1), users=1)
    assert found.predict("loop", 1).rate == pytest.approx(1 / (wait_s + 0.0505), rel=0.001)


def test_a_coroutine_that_computes_before_it_awaits_is_not_in_step() -> None:
    """The probe shows it: 25 calls that compute 4 ms and then await 50 ms keep the loop busy."""
    last = point("loop", 25, 1 / 0.004, 0.004, on_loop_s=0.004)
    in_step = coroutine(0.05, 0.004, 25)
    known = replace(in_step, points=(*in_step.points[:-1], last))
    own_s = 0.004 + OVERHEADS["loop"].serial_s
    assert model(known).predict("loop", 1).rate == pytest.approx(1 / own_s, rel=0.03)
    assert model(in_step).predict("loop", 1).rate == pytest.approx(25 / (0.05 + 25 * own_s))


def test_a_lock_that_coroutines_wait_for_limits_the_loop() -> None:
    points = (
        *coroutine(0.02, 0.0005, 25).points[:-1],
        point("loop", 25, 50.0, 0.0005, on_loop_s=0.0005),
    )
    found = model(probe(0.02, 0.0005, is_coroutine=True, points=points))
    assert (found.predict("loop", 1).rate, found.predict("loop", 1).limit) == (
        pytest.approx(50.0),
        limits.EXTERNAL,
    )


def test_threads_that_a_coroutine_starts_share_the_gil_of_their_loop() -> None:
    last = point("loop", 25, 240.0, 0.0042, on_loop_s=0.0002)
    known = coroutine(0.0, 0.004, 25)
    held = replace(known.call, hold=0.9)
    known = replace(known, call=held, points=(*known.points[:-1], last))
    one = model(known).predict("loop", 1)
    assert (one.rate, one.limit) == (pytest.approx(240.0, rel=0.02), limits.GIL)
    assert model(known).predict("prefork", 2).rate > 1.5 * one.rate


def test_no_request_waits_for_a_core_if_each_user_has_one() -> None:
    points = tuple(point(kind, 16, 16 / 0.05, 0.05) for kind in (THREADS, PROCESSES))
    known = probe(0.0, 0.05, cores=32, points=points)
    found = model(known).predict("pipes", 25)
    assert found.rate == pytest.approx(25 / (0.05 + OVERHEADS["pipes"].cpu_s), rel=0.02)


def test_threads_of_pure_python_share_one_gil() -> None:
    threads, pipes = best_size(PYTHON, "threads"), best_size(PYTHON, "pipes")
    assert (threads.limit, pipes.limit) == (limits.GIL, limits.CPU)
    assert threads.rate == pytest.approx(20, rel=0.1)
    assert (pipes.rate, pipes.workers) == (pytest.approx(FREE / 0.0509, rel=0.02), CORES)


def test_threads_of_work_without_the_gil_use_all_cores() -> None:
    threads = best_size(HASH, "threads")
    assert (threads.rate, threads.limit) == (pytest.approx(FREE / 0.0509, rel=0.02), limits.CPU)


def test_a_tiny_call_is_not_worth_any_hand_off() -> None:
    ranking = model(TINY).ranking()
    assert [each.strategy for each in ranking[:2]] == ["prefork", "loop"]
    assert model(TINY).predict("processes", 2).limit == limits.SERVER


def test_a_mixture_needs_more_workers_than_cores() -> None:
    assert best_size(MIXED, "pipes").workers > CORES
    assert model(MIXED).predict("pipes", 2).rate == pytest.approx(2 / 0.1006, rel=0.02)


def test_a_coroutine_that_awaits_needs_no_workers() -> None:
    best = model(coroutine(0.2, 0.0005, 25)).predict("loop", 1)
    # All users await 200 ms, and then their requests run sequentially, with an overhead of 0.5 ms.
    assert best.rate == pytest.approx(25 / (0.2 + 25 * 0.001), rel=0.02)
    assert best.limit == limits.USERS


def test_a_coroutine_that_blocks_is_limited_like_any_call_on_the_loop() -> None:
    blocking = coroutine(0.2, 0.0005, 25)
    last = point("loop", 25, 1 / 0.2005, 0.0005, on_loop_s=0.2005)
    blocking = probe(0.2, 0.0005, is_coroutine=True, points=(*blocking.points[:-1], last))
    found = model(blocking).predict("loop", 1)
    assert (found.rate, found.limit) == (pytest.approx(5, rel=0.05), limits.TASK)


def test_a_lock_that_limits_threads_is_not_mistaken_for_the_gil() -> None:
    locked = (point(THREADS, 2, 20, 0.001), point(THREADS, 25, 20, 0.001))
    free = (point(PROCESSES, 2, 40, 0.001), point(PROCESSES, 8, 160, 0.001))
    known = probe(wait_s=0.049, cpu_s=0.001, hold=0.02, points=locked + free)
    found = model(known).predict("threads", 8)
    assert (found.limit, found.rate) == (limits.EXTERNAL, pytest.approx(20, rel=0.05))
    assert model(known).predict("pipes", 8).limit == limits.WORKERS


def test_calls_that_wait_for_a_busy_core_are_not_mistaken_for_a_lock() -> None:
    busy = tuple(
        point(PROCESSES, n, 10, 0.05, queued_s=0.7 * n / 10) for n in (2, 8)
    )  # another program uses half of the machine
    known = probe(0.0, 0.05, hold=1.0)
    known = probe(0.0, 0.05, hold=1.0, points=(*known.of_kind(THREADS), *busy))
    assert model(known).predict("pipes", 2).limit == limits.CPU


def test_no_size_is_larger_than_the_number_of_users() -> None:
    for strategy in ("threads", "processes", "pipes", "prefork"):
        assert max(model(SLEEP, users=3).sizes(strategy)) == 3
    assert model(SLEEP, users=1).sizes("threads") == [1]


def test_a_limit_of_memory_excludes_what_does_not_fit() -> None:
    limited = Model(SLEEP, OVERHEADS, 25, memory_mib=100.0)
    assert limited.sizes("pipes") == [1, 2]  # 20 + 8 + 22 MiB, and 15 + 2 for each worker
    assert limited.sizes("threads")[-1] == 25
    none = Model(SLEEP, OVERHEADS, 25, memory_mib=27.0)
    assert (none.best_size("pipes"), none.ranking()) == (None, [])


def test_a_busy_core_takes_longer_for_the_same_work() -> None:
    """Two threads of one core: each is slower while the other computes."""
    few = tuple(p for p in probe(0.09, 0.01).points if p.count == CORES)  # the cores were idle
    slower, faster = (
        model(probe(0.09, 0.01, points=few, crowding=crowding)).predict("pipes", 25)
        for crowding in (1.5, 1.0)
    )
    assert (slower.limit, slower.rate / faster.rate) == (limits.CPU, pytest.approx(0.72, abs=0.05))
    computes = probe(wait_s=0.0, cpu_s=0.05, crowding=1.5)  # what the probe has measured counts
    assert model(computes).predict("pipes", 2).rate == pytest.approx(FREE / 0.0509, rel=0.02)


def test_threads_are_not_considered_if_results_are_wrong_in_threads() -> None:
    threads = tuple(point(THREADS, p.count, p.rate, 0.05, results=3) for p in HASH.of_kind(THREADS))
    unsafe = probe(0.0, 0.05, points=(*threads, *HASH.of_kind(PROCESSES)))
    assert "threads" not in {each.strategy for each in model(unsafe).ranking()}
    varying = probe(0.0, 0.05, points=unsafe.points, results=3)  # results always differ
    assert "threads" in {each.strategy for each in model(varying).ranking()}


def test_threads_are_not_considered_if_calls_fail_only_in_threads() -> None:
    failing = tuple(
        point(THREADS, p.count, p.rate, 0.05, failed=1.0, results=0) for p in HASH.of_kind(THREADS)
    )
    found = probe(0.0, 0.05, points=(*failing, *HASH.of_kind(PROCESSES)))
    assert (found.is_unsafe_in_threads, found.differs_in_threads) == (True, False)
    assert "threads" not in {each.strategy for each in model(found).ranking()}
    everywhere = probe(0.0, 0.05, points=found.points, failed=0.6)  # also alone
    assert "threads" in {each.strategy for each in model(everywhere).ranking()}


def test_processes_are_not_considered_if_calls_fail_only_in_them() -> None:
    """Their calls are no measure of the cost either: they fail at once."""
    failing = tuple(
        point(PROCESSES, p.count, 1e5, 1e-5, failed=0.9, results=0) for p in HASH.of_kind(PROCESSES)
    )
    found = probe(0.0, 0.05, points=(*HASH.of_kind(THREADS), *failing))
    assert {each.strategy for each in model(found).ranking()} == {"loop", "threads"}
    assert model(found).predict("loop", 1).rate == pytest.approx(1 / 0.0507, rel=0.05)
    awaits = replace(found, is_coroutine=True)  # one event loop in each process of prefork
    assert {each.strategy for each in model(awaits).ranking()} == {"loop", "threads", "prefork"}


def test_a_quota_limits_the_rate() -> None:
    whole, half = (model(replace(PYTHON, quota=quota)) for quota in (None, 0.5))
    rates = [each.predict("prefork", 2).rate for each in (whole, half)]
    assert rates[1] / rates[0] == pytest.approx(0.4 / 1.9, rel=0.05)


def test_calls_need_less_cpu_in_pipes_if_their_page_faults_cost_cpu() -> None:
    known = probe(0.0, 0.02, hold=1.0)
    kept = point(KEPT_PAGES, CORES, 2 * CORES / 0.02, 0.01)
    found = replace(known, points=(*known.points, kept))
    assert (known.kept_pages_factor, found.kept_pages_factor) == (1.0, 0.5)
    for strategy, is_faster in (("pipes", True), ("processes", False), ("prefork", False)):
        before, after = (model(each).predict(strategy, 2).rate for each in (known, found))
        assert (after > 1.5 * before) if is_faster else (after == before)
    slower = replace(known, points=(*known.points, replace(kept, cpu_s=0.03)))
    assert slower.kept_pages_factor == 1.0  # a change of the machine's speed


def test_processes_cost_memory_and_threads_hardly_any() -> None:
    found = model(PYTHON)
    threads, one, two = (
        found.predict(strategy, n).memory_mib or 0.0
        for strategy, n in (("threads", 8), ("pipes", 1), ("pipes", 2))
    )
    assert (threads, two - one) == (pytest.approx(28.8), pytest.approx(17))
    assert model(probe(0, 1, base_mib=None)).predict("loop", 1).memory_mib is None


def test_processes_of_prefork_share_imports_and_threads_grow_as_in_the_probe() -> None:
    """A process of a pool imports 40 MiB by itself, and 60 % of it are shared after a fork."""
    points = point(PROCESSES, CORES, 20.0, 0.05, worker_mib=50.0)
    grown = point(THREADS, 8, 20.0, 0.05, worker_mib=5.0)
    known = model(probe(0, 0.05, imported_mib=57.0, base_mib=60.0, points=(points, grown)))

    def each(strategy: str) -> float:
        one, two = (known.predict(strategy, n).memory_mib or 0.0 for n in (1, 2))
        return two - one

    assert each("processes") == pytest.approx(50)
    assert each("prefork") == pytest.approx(50 - 0.6 * 40)
    assert each("threads") == pytest.approx(0.9 * 5)
    older = model(probe(0, 0.05, imported_mib=None, points=(points, grown)))  # of another version
    assert older.predict("prefork", 2).memory_mib == pytest.approx(20 + 8 + 2 * 7)


def test_a_call_that_waits_has_the_overhead_of_workers_that_sleep() -> None:
    """A worker that sleeps has wake-ups of its own in each request."""
    waits, computes = probe(wait_s=0.005, cpu_s=0.0001), probe(wait_s=0.0, cpu_s=0.0005)
    for strategy in ("threads", "processes", "pipes", "prefork"):
        with_sleep = model(waits, overheads=DOUBLED).predict(strategy, 25).rate
        without = model(waits).predict(strategy, 25).rate
        assert with_sleep / without == pytest.approx(0.5, abs=0.1)
        assert model(computes, overheads=DOUBLED).predict(strategy, 2) == model(computes).predict(
            strategy, 2
        )


def test_a_wait_that_is_shorter_than_a_turn_of_the_loop_lets_no_worker_sleep() -> None:
    found = DOUBLED["threads"]
    assert found.of_call(0.0006, 0.0, 0) == replace(found, waiting=None)
    assert found.of_call(0.0008, 0.0, 0) == found.waiting
    assert OVERHEADS["threads"].of_call(1.0, 1.0, 0) == OVERHEADS["threads"]  # it is unknown


def test_the_overhead_grows_with_the_cpu_time_of_calls_and_with_their_responses() -> None:
    one = Overhead(0.001, 0.002, waiting=Overhead(0.1, 0.2), computing=Overhead(0.1, 0.2))
    assert one.of_call(0.1, 0.001, 0) == one.waiting  # the larger of both
    assert one.of_call(0.1, 0.002, 0) == Overhead(pytest.approx(0.101), pytest.approx(0.202))
    for cpu_s, share in ((0.0001, 0.5), (0.0002, 1.0), (0.1, 1.0)):
        found = Overhead(pytest.approx(0.001 + share * 0.1), pytest.approx(0.002 + share * 0.2))
        assert one.of_call(0.0, cpu_s, 0) == found
    one = Overhead(0.001, 0.002, waiting=Overhead(0.003, 0.004), megabyte=Overhead(0.01, 0.02))
    assert one.of_call(0.0, 0.1, 500_000) == Overhead(pytest.approx(0.006), pytest.approx(0.012))
    assert one.of_call(0.1, 0.1, 500_000) == Overhead(pytest.approx(0.008), pytest.approx(0.014))


def test_processes_of_prefork_wake_up_for_each_connection_even_if_calls_do_not_wait() -> None:
    tiny = probe(wait_s=0.0, cpu_s=0.0005, hold=1.0)
    found = {n: model(tiny, overheads=DOUBLED).predict("prefork", n).rate for n in (2, 4, 8, 25)}
    assert sorted(found.values(), reverse=True) == [*found.values()]
    assert found[2] == model(tiny).predict("prefork", 2).rate
    crowded = DOUBLED["prefork"].of_call(0.0, 0.0005, 0, wake_ups=1.0)
    assert crowded.cpu_s == pytest.approx(2 * OVERHEADS["prefork"].cpu_s)
    pipes = [model(tiny, overheads=DOUBLED).predict("pipes", n).rate for n in (2, 4, 8)]
    assert pipes == pytest.approx([pipes[0]] * 3)


def test_wake_ups_are_ignored_if_they_were_measured_with_fewer_processes_than_cores() -> None:
    tiny = replace(probe(wait_s=0.0, cpu_s=0.0005, hold=1.0), cores=30, points=())
    found = model(tiny, users=64, overheads=DOUBLED).predict("prefork", 32)
    assert found == model(tiny, users=64).predict("prefork", 32)


def test_cores_are_idle_until_a_worker_has_its_next_request() -> None:
    idle = {name: replace(each, idle_s=0.01) for name, each in OVERHEADS.items()}
    overhead_s = OVERHEADS["pipes"].cpu_s
    for workers, idle_s in ((2, 0.01), (4, IDLE_WITH_MORE_WORKERS * 0.01)):
        found = model(PYTHON, overheads=idle).predict("pipes", workers).rate
        assert found == pytest.approx(FREE / (0.05 + overhead_s + idle_s), rel=0.01)
    for known, size in ((PYTHON, ("pipes", 1)), (PYTHON, ("loop", 1)), (SLEEP, ("pipes", 8))):
        assert model(known, overheads=idle).predict(*size) == model(known).predict(*size)


def test_cores_are_idle_for_coroutines_that_a_pool_runs_as_for_functions() -> None:
    idle = {name: replace(each, idle_s=0.01) for name, each in OVERHEADS.items()}
    computes = coroutine(0.0, 0.05, 25)
    expected = model(PYTHON, overheads=idle).predict("pipes", 2)
    assert model(computes, overheads=idle).predict("pipes", 2) == expected
    assert model(computes, overheads=idle).predict("prefork", 2) == model(computes).predict(
        "prefork", 2
    )


def test_large_responses_and_the_upstream_use_the_cpu_too() -> None:
    large = {name: replace(each, megabyte=each.scaled(5.0)) for name, each in OVERHEADS.items()}
    sends = replace(TINY, call=replace(TINY.call, body_bytes=1_000_000))
    before = model(sends).predict("pipes", 2).rate
    assert model(sends, overheads=large).predict("pipes", 2).rate == pytest.approx(
        before / 6, rel=0.01
    )
    fetches = replace(PYTHON, upstream_cpu_s=0.05)
    found = model(fetches).predict("prefork", 4)
    assert found.rate == pytest.approx(FREE / (0.05 + 0.05 + 0.0007), rel=0.01)


def test_a_coroutine_waits_without_its_worker() -> None:
    awaits = coroutine(0.005, 0.0001, 25)
    for strategy, workers in (("loop", 1), ("prefork", 2)):
        expected = model(awaits).predict(strategy, workers)
        assert model(awaits, overheads=DOUBLED).predict(strategy, workers) == expected


def test_the_overhead_uses_the_cores_that_the_calls_share() -> None:
    known = model(probe(wait_s=0.02, cpu_s=0.0014)).predict("prefork", 25)
    assert known.rate == pytest.approx(shared_rate(25, FREE, 0.02, 0.0021, IN_STEP_PREFORK))
    assert known.limit == limits.CPU


def test_a_call_whose_cpu_time_is_too_short_to_be_measured_has_a_prediction() -> None:
    instant = replace(TINY.call, cpu_s=0.0, wall_s=0.000001)
    points = tuple(replace(each, cpu_s=0.0) for each in TINY.points)
    ranking = model(replace(TINY, call=instant, points=points)).ranking()
    assert len(ranking) == len(OVERHEADS)
    assert all(0 < each.rate < 1e6 for each in ranking)
