"""The figures of several hosts are those of all their samples, pooled."""

from __future__ import annotations

import math
import random
from array import array
from dataclasses import replace

import pytest

from offload.loads import Arrivals, HostRun, Load, Window
from offload.loads.engine.figures import KINDS, Samples
from offload.loads.engine.processes import AgreedTimes
from offload.loads.hosts import HostResult, divide_among_hosts, merge, whole_load
from offload.loads.hosts.remote_host import ClockOffset

START, SECONDS = 5000.123456789, 10.0
LOAD = Load("http://127.0.0.1/", users=8, seconds=SECONDS, processes=2)
TIMES = AgreedTimes(START, START, START + SECONDS)
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}


def loop(
    users: int, ahead: float, mean_s: float, seed: int, until: float = SECONDS + 0.5
) -> Samples:
    """Return the samples of users that send one request after the other, by a host's clock."""
    generator = random.Random(seed)
    rows = []
    for _ in range(users):
        now = START + ahead
        while now < START + ahead + until:
            end = now + generator.expovariate(1 / mean_s)
            rows.append((end, now))
            now = end
    rows.sort()
    started, ended = array("d", (b for _, b in rows)), array("d", (e for e, _ in rows))
    return Samples(started=started, sent=array("d", started), ended=ended, over=ended[-1], busy=0.2)


def host(name: str, *parts: Samples, ahead: float = 0.0, users: int = 4) -> HostResult:
    before, after = ClockOffset(ahead, 1e-4, START - 1), ClockOffset(ahead, 1e-4, START + 12)
    return HostResult(HostRun(name, users), before, after, parts)


def pooled(hosts: dict[float, list[Samples]]) -> list[float]:
    """Return the times of all requests that ended in the window; the keys are clock offsets."""
    return sorted(
        end - start
        for ahead, parts in hosts.items()
        for part in parts
        for start, end in zip(part.started, part.ended, strict=True)
        if START + ahead <= end <= START + SECONDS + ahead
    )


@pytest.mark.parametrize("ahead", [0.0, 0.3, -1234.567, 98765.4321])
@pytest.mark.parametrize("seed", range(5))
def test_merged_percentiles_are_those_of_the_pooled_samples(ahead: float, seed: int) -> None:
    fast, slow = loop(4, 0.0, 0.01, seed), loop(3, ahead, 0.2, seed + 100)
    slower = loop(1, ahead, 0.9, seed + 200)
    found = merge(LOAD, TIMES, [host("a", fast), host("b", slow, slower, ahead=ahead)])
    every = sorted(pooled({0.0: [fast]}) + pooled({ahead: [slow, slower]}))
    response = found.result.figures.response
    for name, share in QUANTILES.items():
        expected = every[math.ceil(share * len(every)) - 1]
        assert getattr(response, f"{name}_s") == round(expected, 6)
    assert found.result.figures.completed == len(every) == sum((response.histogram or {}).values())
    assert response.mean_s == round(math.fsum(every) / len(every), 6)


def test_the_percentile_is_not_the_mean_of_percentiles() -> None:
    fast, slow = loop(4, 0.0, 0.01, 1), loop(4, 0.0, 1.0, 2)
    both = merge(LOAD, TIMES, [host("a", fast), host("b", slow)]).result.figures.response
    each = [
        merge(LOAD, TIMES, [host(name, part)]).result.figures.response.p99_s
        for name, part in (("a", fast), ("b", slow))
    ]
    assert both.p99_s is not None
    assert None not in each
    assert abs(both.p99_s - sum(x or 0.0 for x in each) / 2) > 0.1


def test_the_rate_is_that_of_all_hosts_in_the_same_window() -> None:
    parts = {0.0: loop(4, 0.0, 0.05, 3), 77.7: loop(4, 77.7, 0.05, 4)}
    found = merge(
        LOAD, TIMES, [host(f"h{ahead}", part, ahead=ahead) for ahead, part in parts.items()]
    )
    figures = found.result.figures
    alone = [
        merge(LOAD, TIMES, [host("x", part, ahead=ahead)]).result.figures.rate
        for ahead, part in parts.items()
    ]
    assert figures.rate == pytest.approx(sum(rate or 0.0 for rate in alone), rel=1e-9)
    assert (figures.window_began, figures.window_ended) == (START, START + SECONDS)
    assert figures.in_flight == pytest.approx(8, rel=0.01)


def test_without_the_correction_the_window_would_be_another_one() -> None:
    ramp = loop(4, 0.3, 0.05, 5, until=SECONDS)
    right = merge(LOAD, TIMES, [host("b", ramp, ahead=0.3)])
    wrong = merge(LOAD, TIMES, [host("b", ramp, ahead=0.0)])
    assert right.hosts[0].late_s == pytest.approx(0.0, abs=1e-6)
    assert wrong.hosts[0].late_s == pytest.approx(0.3, abs=1e-6)
    assert (wrong.result.figures.completed or 0) < (right.result.figures.completed or 0)
    assert [flag.kind for flag in wrong.result.notes] == ["start"]


def test_a_host_without_requests_changes_nothing() -> None:
    full = loop(4, 0.0, 0.05, 6)
    alone = merge(LOAD, TIMES, [host("a", full)]).result.figures
    both = merge(LOAD, TIMES, [host("a", full), host("b", Samples(over=START + 11))])
    assert both.result.figures.response == alone.response
    assert both.result.figures.rate == alone.rate
    assert both.hosts[1].completed == 0
    assert both.hosts[1].late_s is None


def test_hosts_without_any_request_have_no_percentile_and_a_rate_of_zero() -> None:
    found = merge(LOAD, TIMES, [host("a", Samples(over=START + 11))]).result.figures
    assert (found.completed, found.response.p50_s, found.rate) == (0, None, 0.0)


def test_hosts_with_different_histories_are_one_load() -> None:
    failing = Samples(
        failed=[
            ("reset", START + 1, START + 1.5),
            ("timeout", START + 2, START + 9),
            ("5xx", START + 3, START + 3.1),
            ("body", START + 3, START + 3.2),
        ],
        unfinished=[START + 9.9],
        over=START + 11,
    )
    full = loop(4, 0.0, 0.05, 7)
    found = merge(LOAD, TIMES, [host("a", full), host("b", failing)])
    failed = found.result.figures.failed
    expected = dict.fromkeys(KINDS, 0)
    expected |= {"reset": 1, "timeout": 1, "5xx": 1, "body": 1, "unfinished": 1}
    assert failed == expected
    assert found.received == len(full.ended) + 1  # the server counted the wrong body, too
    assert found.unanswered == 3
    assert found.result.figures.response.at_least_s == LOAD.timeout


def test_a_lost_host_is_flagged_and_the_others_are_kept() -> None:
    kept = loop(4, 0.0, 0.05, 8)
    lost = replace(host("b"), samples=None, run=HostRun("b", 4, problem="its agent ended"))
    found = merge(LOAD, TIMES, [host("a", kept), lost])
    [flag] = found.result.notes
    assert (flag.kind, "host b failed (its agent ended)" in flag.message) == ("hosts", True)
    assert found.result.figures.completed == len(pooled({0.0: [kept]}))
    assert (found.received, found.unanswered, found.result.problem) == (None, None, None)
    assert [run.problem for run in found.hosts] == [None, "its agent ended"]
    assert found.hosts[1].completed is None


def test_without_any_host_there_is_a_problem_and_no_figure() -> None:
    lost = [
        replace(host(name), samples=None, run=HostRun(name, 4, problem="gone")) for name in "ab"
    ]
    found = merge(LOAD, TIMES, lost).result
    assert found.problem == "host a: gone; host b: gone"
    assert (found.figures.completed, found.figures.rate) == (None, None)


def test_the_problem_of_a_load_names_its_host() -> None:
    stopped = Samples(over=START + 3, problem="builtin stopped after 1000 failures")
    found = merge(LOAD, TIMES, [host("a", loop(4, 0.0, 0.05, 9)), host("b", stopped)])
    assert found.result.problem == "host b: builtin stopped after 1000 failures"


def test_a_clock_that_jumps_or_is_coarse_is_flagged() -> None:
    part = loop(4, 0.0, 0.05, 10)
    jumped = replace(host("a", part), after=ClockOffset(0.3, 1e-4, START + 12))
    coarse = replace(host("a", part), before=ClockOffset(0.0, 0.2, START - 1))
    unknown = replace(host("a", part), after=None)
    for result, words in ((jumped, "changed by"), (coarse, "only known to"), (unknown, "after")):
        flags = merge(LOAD, TIMES, [result]).result.notes
        assert [flag.kind for flag in flags] == ["clock"]
        assert words in flags[0].message


def test_an_open_loop_counts_the_requests_that_were_scheduled_in_the_window() -> None:
    load = replace(LOAD, arrivals=Arrivals(10.0))
    due = array("d", (START + 50.0 + n / 5 for n in range(60)))
    ended = array("d", (at + 0.05 for at in due))
    zero = array("d", (0.0 for _ in due))
    part = Samples(due, array("d", due), ended, due=due, late=zero, waited=zero, over=START + 63)
    found = merge(load, TIMES, [host("b", part, ahead=50.0)])
    assert found.result.figures.offered == found.result.figures.completed == 51


def test_a_number_of_requests_has_the_whole_load_as_its_window() -> None:
    load = replace(LOAD, seconds=None, requests=100)
    part = loop(4, 0.3, 0.05, 11, until=1.0)
    times = replace(TIMES, window_ended=None)
    figures = merge(load, times, [host("b", part, ahead=0.3)]).result.figures
    assert figures.completed == len(part.ended)
    assert figures.elapsed_s == pytest.approx(part.over - START - 0.3, abs=1e-5)


def test_the_parts_of_the_hosts_add_up() -> None:
    together = whole_load(replace(LOAD, users=11, processes=2), 3)
    found = divide_among_hosts(together, 3)
    assert sum(part.users for part in found) == 11
    assert [(part.first, part.processes) for part in found] == [(0, 2), (2, 2), (4, 2)]
    assert together.window == Window(refills=False)
