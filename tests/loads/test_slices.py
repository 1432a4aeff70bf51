"""Several loads are sent in slices, one after the other, and their figures describe all slices."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest

from offload import loads
from offload.errors import UsageError
from offload.loads import Load, Window, builtin
from offload.loads.engine import slices
from offload.loads.engine.slices import Slice, pooled
from tests.loads.conftest import Server

ORDER = (0, 1, 1, 0)


def load(url: str, **values: Any) -> Load:
    """Return the load of a slice of 0.1 s."""
    window = Window(warm=0.02, completions=1, refills=False)
    return Load(url, 4, seconds=0.1, keep_alive=True, window=window, timeout=5.0, **values)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[list[Slice]]:
    """The slices of each load, in the order of the loads."""
    found: list[list[Slice]] = []

    def watched(own: Load, parts: list[Slice]) -> Any:
        found.append(parts)
        return pooled(own, parts)

    monkeypatch.setattr(slices, "pooled", watched)
    return found


def test_one_load_sends_at_a_time_and_leaves_no_request_in_flight(kept: list[list[Slice]]) -> None:
    with Server() as one, Server() as other:
        found = slices.run([load(one.url()), load(other.url())], ORDER)
    spans = [
        (each.samples.started[0], each.samples.ended[-1])
        for place, number in ((0, 0), (1, 0), (1, 1), (0, 1))
        for each in [kept[place][number]]
    ]
    assert all(ended <= started for (_, ended), (started, _) in itertools.pairwise(spans))
    assert all(not each.samples.unfinished for own in kept for each in own)
    assert found.elapsed_s >= len(ORDER) * 0.12
    assert 0 < found.cpu_s <= found.elapsed_s


def test_the_figures_are_those_of_all_slices(kept: list[list[Slice]]) -> None:
    with Server() as one, Server() as other:
        found = slices.run([load(one.url()), load(other.url("/404"))], ORDER)
        counted = one.requests["/"]
    first, second = (each.result.figures for each in found.loads)
    assert found.loads[0].received == counted
    assert 0 < (first.completed or 0) < counted
    lengths = [each.window.length for each in kept[0]]
    assert first.elapsed_s == pytest.approx(sum(lengths), abs=1e-5)
    assert first.rate == pytest.approx((first.completed or 0) / sum(lengths), rel=0.1)
    assert sum((first.response.histogram or {}).values()) == first.completed
    assert (first.window_began, first.window_ended) == (
        kept[0][0].window.started,
        kept[0][1].window.ended,
    )
    assert first.in_flight == pytest.approx(4, rel=0.05)
    assert (second.completed, second.availability) == (0, 0.0)
    assert (second.failed["4xx"] or 0) > 0


def test_a_load_with_a_problem_has_no_further_slice(
    monkeypatch: pytest.MonkeyPatch, kept: list[list[Slice]]
) -> None:
    monkeypatch.setattr("offload.loads.engine.connections.clients.FAILING_S", 0.0)
    with Server() as one:
        port = one.port
        gone = load("http://127.0.0.1:9/")  # nothing listens there
        found = slices.run([gone, load(f"http://127.0.0.1:{port}/")], (0, 1, 1, 0))
    assert [len(own) for own in kept] == [1, 2]
    assert "consecutive failures (refused)" in (found.loads[0].result.problem or "")
    assert found.loads[1].result.problem is None


def test_the_tool_sends_slices_in_a_process_of_its_own() -> None:
    with Server() as one, Server() as other:
        ran = loads.run_slices([load(one.url()), load(other.url())], ORDER)
        counts = [one.requests["/"], other.requests["/"]]
    assert [each.received for each in ran.runs] == counts
    for each in ran.runs:
        assert each.result.problem is None and each.hung is False
        assert each.result.figures.rate and each.driver_busy and each.driver_cpu_s
        assert json.loads(each.argv[-1])["users"] == 4
    assert ran.cpu_s > 0
    with pytest.raises(UsageError, match="users=0"):
        loads.run_slices([load("http://127.0.0.1:9/"), replace(load("http://x"), users=0)], (0,))


@pytest.mark.parametrize("output", ["", "[]", "{", '{"loads": [{"result": {}}]}', "null"])
def test_without_a_result_each_load_has_the_problem(output: str) -> None:
    both = [load("http://127.0.0.1:9/")] * 2
    found = builtin.parse_slices(output, "Traceback\nMemoryError", both)
    problem = "builtin printed no result: MemoryError"
    assert [each.result.problem for each in found.loads] == [problem, problem]
