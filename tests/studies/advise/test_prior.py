"""The prior: which set-ups are measured first, for functions whose answer was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offload import resource_limits
from offload.causes.gains import Gain
from offload.studies.advise import answer, costs, study
from offload.studies.advise.costs import Cost, Costs
from offload.studies.advise.evidence import LOOPS, POOL, THREADS, Evidence, Question, Setup
from offload.studies.advise.function import SERVERS, Function
from offload.studies.advise.prior import MOST_CANDIDATES, Prior
from offload.studies.advise.probe import LOOP, PROCESSES, Point, Probe
from offload.studies.advise.probe import THREADS as IN_THREADS
from offload.suites import Case
from tests.studies.advise.probes import probe

QUERY = probe(0.020, 0.001, hold=0.05)
ON_LOOP = Point(LOOP, 64, 64 / 0.042, 0.042, 0.0001, 0.0, 0.0, 1, on_loop_s=0.0001)
AWAITS = replace(probe(0.042, 0.0001), is_coroutine=True, points=(ON_LOOP,))
COMPUTES = probe(0.0, 0.010, hold=1.0)


def names(prior: Prior) -> list[str]:
    return [each.name for each in prior.candidates(SERVERS)]


def prior(found: Probe, **question: object) -> Prior:
    return Prior(costs.estimate_from_probe(found), Question(**question))  # type: ignore[arg-type]


def test_a_call_that_waits_and_computes_gets_two_processes_of_threads() -> None:
    found = names(prior(QUERY))
    assert found[0] == "threads 2x16"  # 2.3 ms of CPU with the server and the load tool
    assert len(found) == MOST_CANDIDATES
    assert "loop" not in found  # it would serve 50/s


def test_a_rate_beyond_all_bounds_is_told_before_the_race() -> None:
    for rate, is_told in ((100.0, False), (1e6, True)):
        found = prior(QUERY, rate=rate)
        told = study.describe_excessive_rate(found, found.candidates(SERVERS))
        assert (told is not None) is is_told
    assert "/s, not 1,000,000/s: the answer will be how many machines" in (told or "")


def in_processes(wall_s: float, cpu_s: float, queued_s: float = 0.0) -> Probe:
    """Return the probe of a call of 36 ms, 4 ms of them CPU, of which two processes run calls."""
    known = probe(0.032, 0.004, hold=0.1)
    others = [each for each in known.points if each.kind != PROCESSES]
    found = Point(PROCESSES, 2, 2 / wall_s, wall_s, cpu_s, queued_s, 0.0, 2, 15.0)
    return replace(known, points=(*others, found))


def test_processes_that_wait_for_each_other_get_few_slots() -> None:
    waits = in_processes(0.071, 0.004)
    setups = prior(waits).candidates(SERVERS)
    assert max(each.slots or 0 for each in setups) <= 2
    [threads, *_] = (each for each in setups if each.kind == THREADS)
    assert prior(waits).limit(threads) == "shared"
    found = Evidence(threads, {1: 28.0})
    assert "several processes wait for each other" in answer.limit_in_words(found, prior(waits))
    exceeded = replace(found, rates={1: 60.0})  # then the bound was wrong
    assert "wait for each other" not in answer.limit_in_words(exceeded, prior(waits))
    for alike in (
        replace(waits, call=replace(waits.call, variation=1.5)),  # calls differ anyway
        in_processes(0.15, 0.004),  # too few calls
        in_processes(0.037, 0.004),
        in_processes(0.071, 0.038),  # it computes
        in_processes(0.071, 0.004, 0.03),  # it waits for a CPU
    ):
        assert max(each.slots or 0 for each in prior(alike).candidates(SERVERS)) > 8


@pytest.mark.parametrize(("cpu_s", "is_noted"), [(0.0132, True), (0.0075, False)])
def test_a_note_names_the_variable_of_calls_in_threads_of_their_own(
    cpu_s: float, is_noted: bool
) -> None:
    known = probe(0.0, 0.0069)
    known = replace(known, call=replace(known.call, cpu_s=cpu_s))
    best = Evidence(Setup("threads", THREADS, 1, 1), {1: 100.0})
    notes = " ".join(Function(known).notes(best))
    assert ("OMP_NUM_THREADS=1" in notes) is is_noted
    gain = Gain("prefork x2 and OMP_NUM_THREADS=1", 1.28, 1.25, 1.3)
    measured = " ".join(Function(known, gain=gain).notes(best))
    assert (f"{gain.text}. Repeat this with OMP_NUM_THREADS=1" in measured) is is_noted
    refuted = " ".join(Function(known, gain=replace(gain, ratio=0.9, low=0.85)).notes(best))
    assert "Repeat" not in refuted


def test_a_coroutine_that_awaits_gets_loops_and_no_threads() -> None:
    found = prior(AWAITS).candidates(SERVERS)
    assert {each.name for each in found[:2]} == {"loop", "prefork x2"}
    assert all(each.kind != THREADS for each in found)


def test_a_coroutine_that_computes_may_stay_on_its_loop_if_it_mostly_awaits() -> None:
    def computing(on_loop_s: float) -> Probe:
        return replace(AWAITS, points=(replace(ON_LOOP, on_loop_s=on_loop_s),))

    assert costs.estimate_from_probe(computing(0.020)).blocks_s == 0.0
    blocking = computing(0.022)
    assert costs.estimate_from_probe(blocking).blocks_s == 0.022
    assert Function(blocking).blocks_a_coroutine
    plain = replace(blocking, is_coroutine=False)
    assert costs.estimate_from_probe(plain).blocks_s == 0.022
    assert not Function(plain).blocks_a_coroutine


def test_a_call_that_computes_gets_as_many_processes_as_cores() -> None:
    found = prior(COMPUTES).candidates(SERVERS)
    assert all(each.all_processes >= 2 for each in found[:2])


def test_few_users_need_few_slots() -> None:
    setups = prior(QUERY, users=8).candidates(SERVERS)
    assert max(each.slots or 0 for each in setups) <= 8
    assert all(prior(QUERY, users=8).users(each) == 8 for each in setups)


def test_users_of_a_loop_follow_from_the_calls_in_progress() -> None:
    found = prior(AWAITS)
    loop = Setup("loop", LOOPS)
    in_progress = found.capacity(loop) * AWAITS.call.wall_s
    assert found.users(loop) == pytest.approx(2 * in_progress, abs=2)
    assert prior(AWAITS, users=25).users(loop) == 25


def test_a_required_rate_begins_with_the_cheapest_set_ups_that_may_carry_it() -> None:
    found = prior(QUERY, rate=300.0)
    [first, *others] = found.candidates(SERVERS)
    assert first.all_processes == 1
    assert found.capacity(first) >= 300 / 0.8
    assert all(found.capacity(each) >= 300 / 0.8 for each in others)
    assert found.memory_mib(first) == min(map(found.memory_mib, [first, *others]))
    assert prior(QUERY, rate=1e5).candidates(SERVERS) == prior(QUERY).candidates(SERVERS)


def test_connections_are_never_exceeded() -> None:
    for limit in (1, 3, 16):
        setups = prior(QUERY, connections=limit).candidates(SERVERS)
        assert setups
        assert all((each.slots or 0) <= limit for each in setups)


def test_memory_of_calls_in_progress_limits_the_slots() -> None:
    point = Point(IN_THREADS, 2, 10.0, 0.2, 0.2, 0.0, 0.0, 1, worker_mib=64.0)
    found = prior(replace(probe(0.0, 0.1), points=(point,)), memory_mib=512.0)
    assert found.costs.call_mib == 64.0
    assert not found.is_possible(Setup("threads", THREADS, 1, 16))
    assert found.is_possible(Setup("threads", THREADS, 1, 4))
    [*threads] = [each for each in found.candidates(SERVERS) if each.kind == THREADS]
    assert threads
    assert all(found.memory_mib(each) <= 512 for each in threads)


def test_isolation_needs_a_pool() -> None:
    assert {each.kind for each in prior(QUERY, isolate=True).candidates(SERVERS)} == {POOL}


def test_neighbours_are_half_and_twice_of_either_size() -> None:
    setup = Setup("threads", THREADS, 2, 32)
    found = prior(QUERY).neighbours(setup)
    sizes = {(each.processes, each.workers) for each in found}
    assert sizes == {(1, 32), (4, 32), (2, 16), (2, 64)}
    assert Setup("prefork", LOOPS, 2) in prior(AWAITS).neighbours(Setup("loop", LOOPS))
    assert Setup("loop", LOOPS) in prior(AWAITS).neighbours(Setup("prefork", LOOPS, 2))


def application(limit: int | None, is_awaited: bool = False) -> Prior:
    """Return the prior of an application whose requests wait 50 ms, and need 2 ms of CPU.

    At most `limit` are in progress in one process.
    """
    serial_s = None if limit is None else 0.05 / limit
    cost = Cost(0.002, serial_s, 0.05)
    return Prior(Costs(dict.fromkeys((LOOPS, THREADS, POOL), cost), 2.0, is_awaited), Question())


def test_an_application_gets_one_set_up_of_each_server_first() -> None:
    servers = ["gunicorn_gthread", "granian_wsgi", "waitress", "gunicorn_sync", "gunicorn_gevent"]
    found = application(None).candidates_of_each(servers)
    assert [each.server for each in found] == servers
    assert all(each.slots is None or each.slots >= 16 for each in found)
    again = application(None).candidates_of_each(servers[:2])
    assert {each.server for each in again} == {*servers[:2]}
    assert {each.processes for each in again} == {1, 2}


def test_a_process_for_each_call_of_a_server_with_one_at_a_time() -> None:
    [found] = application(None).candidates(["gunicorn_sync"])
    assert (found.workers, found.processes) == (1, 16)
    sizes = {each.processes for each in application(None).neighbours(found)}
    assert sizes == {8}  # 16 are the most


def test_what_limits_each_process_needs_more_processes_than_cores() -> None:
    """A pool of five connections: 100/s in one process, and two cores carry 1,000/s."""
    limited = application(5, is_awaited=True)
    sizes = {each.processes for each in limited.candidates(["uvicorn_workers"])}
    assert 10 in sizes
    [two] = application(None, is_awaited=True).candidates(["uvicorn_workers"])
    assert two.processes == 2


def test_one_process_of_uvicorn_is_the_neighbour_of_two() -> None:
    two = Setup("uvicorn_workers", LOOPS, 2)
    names = {each.name for each in application(None, True).neighbours(two)}
    assert {"uvicorn_httptools", "uvicorn_workers x4"} <= names
    assert application(None, True).neighbours(Setup("hypercorn", LOOPS)) == []


def test_a_process_that_its_gil_limits_needs_one_for_each_core() -> None:
    """Its requests compute 10 ms, and one process serves a little less than 100/s."""
    cost = Cost(0.010, 0.0105, 0.010)
    found = Prior(Costs(dict.fromkeys((LOOPS, THREADS, POOL), cost), 2.0, False), Question())
    assert {each.processes for each in found.candidates(["gunicorn_gthread"])} == {1, 2}


def test_a_pool_is_as_small_as_required() -> None:
    assert names(prior(COMPUTES, isolate=True, connections=1)) == ["processes x1", "pipes x1"]
    small = prior(COMPUTES, isolate=True, memory_mib=45.0)  # a process has 20 MiB
    assert names(small) == ["processes x1", "pipes x1"]


def test_no_set_up_is_larger_than_the_memory_of_the_machine() -> None:
    large = replace(probe(0.5, 0.001), limit_mib=60.0)
    found = prior(large).candidates(SERVERS)
    assert found
    assert all(prior(large).memory_mib(each) <= 60 for each in found)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (
            {"isolate": True, "memory_mib": 30.0},
            "no set-up fits into 30 MiB: processes x1 needs 40 MiB",
        ),
        ({"memory_mib": 10.0}, "no set-up fits into 10 MiB: "),
    ],
)
def test_the_requirement_that_leaves_nothing_is_named(
    question: dict[str, object], words: str
) -> None:
    case = Case("threads", "shop:quote")
    error = study._no_candidate(prior(COMPUTES, **question), case, SERVERS)
    assert str(error).startswith(words)
    without_pools = study._no_candidate(prior(COMPUTES, isolate=True), case, ("loop", "threads"))
    assert without_pools.remedy == "leave out isolate="


@pytest.mark.parametrize(("users", "is_limit"), [(200, True), (10_000, False)])
def test_users_limit_what_reaches_the_rate_that_they_allow(users: int, is_limit: bool) -> None:
    known = prior(AWAITS, users=users)  # 200 users allow 200 / 42.2 ms
    found = Evidence(Setup("loop", LOOPS), {1: 4214.0})
    said = answer.limit_in_words(found, known)
    assert ("users" in said) == is_limit, said


def test_the_cpu_is_no_limit_if_a_call_needs_less_of_it_than_in_the_probe() -> None:
    """14 processes with a lock of 10 ms each; the probe's server used 1.6 ms of CPU a request."""
    cost = Cost(0.0016, 0.0104, 0.0104)
    found = Prior(Costs(dict.fromkeys((LOOPS, THREADS, POOL), cost), 2.0, False), Question())
    setup = Setup("granian_wsgi", THREADS, 14, 4)
    assert answer.limit_in_words(Evidence(setup, {1: 1257.0}), found).endswith(
        "more cores carry more."
    )
    known = Evidence(setup, {1: 1257.0}, cpu_ms=0.62, client_share=0.23)
    assert "a lock or a pool" in answer.limit_in_words(known, found)
    assert "a lock or a pool" not in answer.limit_in_words(replace(known, cpu_ms=1.2), found)


def test_under_a_quota_more_cores_are_not_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    found, known = Evidence(Setup("processes", POOL, 1, 2), {1: 90.0}), prior(COMPUTES)
    monkeypatch.setattr(resource_limits, "own_cpu_quota", lambda: None)
    assert answer.limit_in_words(found, known).endswith("is the CPU: more cores carry more.")
    monkeypatch.setattr(resource_limits, "own_cpu_quota", lambda: 1.5)
    said = answer.limit_in_words(found, known)
    assert said.endswith("is the CPU: a larger quota than 1.5 CPUs carries more.")
