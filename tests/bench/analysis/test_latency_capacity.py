"""The search for the capacity under a latency target, with servers whose capacity is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from offload.engine.record import LONG, Record
from offload.loads import HostRun
from offload.loads.engine.figures import histogram
from offload.studies.capacity import rule
from offload.studies.capacity.rule import FAILED, ROUNDS, TOO_SLOW, TOOL, LatencyTarget
from offload.suites import Case
from tests.records import changed, new_record

pytestmark = pytest.mark.unit

P99 = LatencyTarget(0.99, 0.1)
CASE = Case("threads", "noop_sync")
SERVICE_S, WORKERS, SECONDS = 0.05, 4, 4.0


def response_times(
    rate: float, service_s: float = SERVICE_S, seconds: float = SECONDS
) -> list[float]:
    """Simulate `WORKERS` workers that serve requests at equal intervals in their order."""
    free, found = [0.0] * WORKERS, []
    for number in range(int(rate * seconds)):
        arrived = number / rate
        worker = min(range(WORKERS), key=free.__getitem__)
        free[worker] = max(arrived, free[worker]) + service_s
        found.append(free[worker] - arrived)
    return sorted(found)


def record(number: int, rate: float, times: list[float], **more: object) -> Record:
    known = {"kind": LONG, "round": number, "asked_rate": rate, "alone_s": min(times)}
    counts = {"offered": len(times), "completed": len(times), "failed": {}}
    return changed(
        new_record(CASE, "run"), **{**known, **counts, "histogram": histogram(times), **more}
    )


def search(
    respond: Callable[[float], list[float]], target: LatencyTarget = P99, most: int = 60
) -> list[Record]:
    """Return the records of a whole search against a simulated server."""
    found: list[Record] = []
    while (step := rule.next_step(target, found)) is not None:
        found.append(record(*step, respond(step[1])))
        assert len(found) <= most
    return found


def test_the_capacity_of_a_simulated_pool_is_that_of_its_workers() -> None:
    found = rule.evaluate(P99, search(response_times))
    assert found.value == pytest.approx(WORKERS / SERVICE_S, rel=0.05)
    assert found.low is not None
    assert found.high is not None
    assert found.low < WORKERS / SERVICE_S < found.high
    assert found.high / found.low < 1.1
    assert (found.problem, len(found.estimates)) == (None, ROUNDS)


@pytest.mark.parametrize("share", [0.5, 0.99])
@pytest.mark.parametrize("limit_s", [0.1, 0.5, 2.0])
def test_the_capacity_does_not_depend_on_the_limit(share: float, limit_s: float) -> None:
    """A queue must have the time to grow up to the limit."""
    target = LatencyTarget(share, limit_s)
    seconds = rule.shortest_load_s(target)
    records = search(lambda rate: response_times(rate, seconds=seconds), target)
    found = rule.evaluate(target, records)
    assert found.value == pytest.approx(WORKERS / SERVICE_S, rel=0.05)


def test_the_interval_of_a_server_whose_speed_varies_contains_its_capacity() -> None:
    def contains(seed: int) -> bool:
        generator = random.Random(seed)

        def respond(rate: float) -> list[float]:
            return response_times(rate, SERVICE_S * generator.uniform(0.9, 1.1))

        found = rule.evaluate(P99, search(respond))
        assert found.low is not None
        assert found.high is not None
        return found.low < WORKERS / SERVICE_S < found.high

    assert sum(map(contains, range(20))) >= 17  # 38 of 40 seeds


def test_the_next_step_depends_on_the_records_only() -> None:
    found = search(response_times)
    for count in range(len(found)):
        step = rule.next_step(P99, found[:count])
        assert step == (found[count].trial.round, found[count].case.asked_rate)


def test_failed_requests_never_have_a_response() -> None:
    times = [0.01] * 98
    good, bad = (
        record(1, 10.0, times, offered=len(times) + failed, failed={"5xx": failed})
        for failed in (0, 2)
    )
    [kept], [missed] = (rule.steps_of(P99, [each]) for each in (good, bad))
    assert kept.is_kept
    assert not missed.is_kept
    assert math.isinf(missed.response_s)


def test_a_request_that_takes_longer_than_the_target_ends_the_search() -> None:
    records = search(lambda rate: [0.2] * int(rate * SECONDS))
    found = rule.evaluate(P99, records)
    assert (found.value, found.problem, len(records)) == (None, TOO_SLOW, 1)


def test_a_delay_of_the_load_tool_is_no_limit_of_the_server() -> None:
    quick = record(1, 10.0, response_times(10.0))
    late = record(1, 20.0, [0.15] * 80, late_p99_s=0.12)
    found = rule.evaluate(P99, [quick, late])
    assert rule.next_step(P99, [quick, late]) is None
    assert (found.value, found.problem, found.at_least) == (None, TOOL, 10.0)


def test_a_failed_load_ends_the_search() -> None:
    broken = changed(record(1, 10.0, [0.01]), problem="the server ended")
    found = rule.evaluate(P99, [broken])
    assert rule.next_step(P99, [broken]) is None
    assert found.problem == FAILED


def test_a_load_that_lost_a_host_is_repeated() -> None:
    """The other host alone sent half of the requested rate, which the server kept easily."""
    hosts = (HostRun("a", 128), HostRun("b", 128, problem="its agent ended"))
    found = search(response_times)
    lost = [
        record(each.trial.round or 1, each.case.asked_rate or 0.0, [0.05] * 80, hosts=hosts)
        for each in found
    ]
    for count, each in enumerate(lost):
        step = rule.next_step(P99, [*found[:count], each])
        assert step == (each.trial.round, each.case.asked_rate)
    assert rule.evaluate(P99, [*found, lost[-1]]) == rule.evaluate(P99, found)
    assert rule.next_step(P99, lost[:3]) is None
    assert rule.evaluate(P99, lost[:3]).problem == FAILED


def test_a_search_that_contradicts_itself_ends() -> None:
    generator = random.Random(2)
    records = search(lambda rate: [generator.choice([0.01, 0.2])] * 40, most=200)
    assert rule.next_step(P99, records) is None


def test_names_of_percentiles() -> None:
    names = [LatencyTarget(share, 1.0).name for share in (0.5, 0.95, 0.99, 0.999)]
    assert names == ["p50", "p95", "p99", "p999"]
