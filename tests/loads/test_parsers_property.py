"""Every parser of a load tool returns a problem or possible figures, for any text."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offload.loads import Load, LoadResult
from offload.loads._load import check_figures
from offload.registry import catalog
from tests.properties import examples

TESTS = Path(__file__).parents[1]
EVERY = tuple(catalog.drivers())
FOLDERS = (TESTS / "data", TESTS / "loads" / "data")
PARSERS = tuple(
    name
    for name in EVERY  # those with recorded outputs
    if name == "builtin" or any((folder / name).is_dir() for folder in FOLDERS)
)
LOAD = Load("http://127.0.0.1/", users=3, seconds=2.0, keep_alive=True)
BUILTIN = {
    "figures": {
        "elapsed_s": 1.5,
        "completed": 30,
        "failed": {"4xx": 0, "other": None},
        "rate": 20.0,
        "response": {"mean_s": 0.1, "max_s": 0.3},
    }
}
RECORDED = {
    name: [
        (out.read_text(), out.with_suffix(".err").read_text())
        for folder in FOLDERS
        for out in sorted((folder / name).glob("*.out"))
    ]
    for name in PARSERS
} | {"builtin": [(json.dumps(BUILTIN, indent=1), "")]}
COUNTS = st.integers(0, 10**9)
TEXT = st.text(st.characters(codec="utf-8"), max_size=200)
ODD = st.sampled_from(
    [".", "", "-1", "1.2.3", "nan", "NaN", "Infinity", "1e999", "null", "true", '"x"', "[]", "{}"]
) | st.sampled_from(["9" * 400, "9" * 5000, "0", "1.5", "\x00", "\u0663", "}{", "][", " "])


def read(name: str, out: str, err: str = "", load: Load = LOAD) -> LoadResult:
    parser = importlib.import_module(f"offload.loads.{name}")
    measured: LoadResult = parser.parse(out, err, load)
    return check_figures(measured, name)


def is_sound(measured: LoadResult) -> bool:
    """Assert that there is a problem, or figures that can be true together."""
    if measured.problem and measured.figures.completed is None:
        assert "\n" not in measured.problem
        assert measured == LoadResult(problem=measured.problem)  # no zero, no figure beside it
        return False
    assert isinstance(measured.figures.completed, int)
    for count in (measured.figures.completed, *measured.figures.failed.values()):
        assert count is None or (type(count) is int and count >= 0)
    assert measured.figures.availability is None or 0 <= measured.figures.availability <= 1
    if measured.figures.completed and measured.figures.rate is not None:
        assert 0 < measured.figures.rate < math.inf
    for name, value in {**vars(measured.figures), **vars(measured.figures.response)}.items():
        if isinstance(value, float):
            assert 0 <= value < math.inf, name
    if not measured.figures.completed:
        assert measured.figures.response.mean_s is None
    return True


@pytest.mark.parametrize("name", PARSERS)
def test_a_recorded_output_has_figures(name: str) -> None:
    assert RECORDED[name]
    assert any(is_sound(read(name, out, err)) for out, err in RECORDED[name])


@pytest.mark.parametrize("name", EVERY)
@examples(30)
@given(out=TEXT, err=TEXT)
def test_any_text_is_a_problem_in_one_line(name: str, out: str, err: str) -> None:
    assert not is_sound(read(name, out, err))


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("out", ["[" * 100_000, '{"a":' * 100_000 + "}", "[1]", "{}", "[{}]"])
def test_json_that_is_no_result_is_a_problem(name: str, out: str) -> None:
    assert not is_sound(read(name, out))


@pytest.mark.parametrize("name", PARSERS)
@examples(75)
@given(data=st.data())
def test_an_output_that_breaks_off_has_no_figures_or_those_of_the_whole(
    name: str, data: st.DataObject
) -> None:
    out, err = data.draw(st.sampled_from(RECORDED[name]))
    cut = read(name, out[: data.draw(st.integers(0, len(out)))], err)
    if is_sound(cut):
        whole = read(name, out, err)
        for field in ("completed", "elapsed_s", "failed", "availability", "rate"):
            assert getattr(cut.figures, field) == getattr(whole.figures, field)
        for field in ("p50_s", "p99_s", "max_s"):
            known = getattr(whole.figures.response, field)
            assert getattr(cut.figures.response, field) in (None, known)


@pytest.mark.parametrize("name", PARSERS)
@examples(75)
@given(data=st.data())
def test_an_output_with_odd_words_in_it_is_a_problem_or_has_figures_that_can_be(
    name: str, data: st.DataObject
) -> None:
    out, err = data.draw(st.sampled_from(RECORDED[name]))
    for _ in range(data.draw(st.integers(1, 3))):
        begin = data.draw(st.integers(0, len(out)))
        end = begin + data.draw(st.integers(0, 12))
        out = out[:begin] + data.draw(ODD) + out[end:]
    is_sound(read(name, out, err))


@pytest.mark.parametrize("name", ["siege", "locust", "builtin"])
@examples(75)
@given(data=st.data())
def test_any_value_in_the_place_of_a_figure_is_a_problem_or_a_figure(
    name: str, data: st.DataObject
) -> None:
    said = json.loads(data.draw(st.sampled_from(RECORDED[name]))[0])
    figures = said[0] if name == "locust" else said
    if name == "builtin":
        figures = data.draw(st.sampled_from([said, said["figures"], said["figures"]["response"]]))
    key = data.draw(st.sampled_from(sorted(figures)))
    figures[key] = data.draw(
        st.none() | st.booleans() | st.integers() | st.floats() | st.just(10**400) | TEXT
        | st.just([]) | st.just({}) | st.just({"x": "y"}) | st.just({"1": -1}) | st.just({"nan": 1})
    )  # fmt: skip
    is_sound(read(name, json.dumps(said)))


@examples(30)
@given(transactions=COUNTS, failures=st.integers(0, 255), elapsed=st.integers(1, 10**6))
def test_siege_s_figures_come_back(transactions: int, failures: int, elapsed: int) -> None:
    good = transactions // 3
    said = {
        "transactions": transactions,
        "availability": 100.0,
        "elapsed_time": elapsed / 100,
        "response_time": 1.5,
        "successful_transactions": good,
        "failed_transactions": failures,
        "longest_transaction": 2.5,
    }
    measured = read("siege", f"a banner\n{json.dumps(said)}\n")
    assert (measured.figures.completed, measured.figures.failed["4xx"]) == (
        good,
        transactions - good,
    )
    assert measured.figures.failed["other"] == failures
    assert (measured.figures.elapsed_s, measured.figures.response.max_s) == (
        elapsed / 100,
        2.5 if good and good == transactions else None,
    )
    if transactions + failures:
        assert measured.figures.availability == good / (transactions + failures)


@examples(30)
@given(finished=COUNTS, refused=COUNTS, ms=st.integers(1, 10**7), mean=st.integers(20, 10**6))
def test_ab_s_figures_come_back(finished: int, refused: int, ms: int, mean: int) -> None:
    refused = min(refused, finished)
    lines = [
        f"Time taken for tests:   {ms / 1000:.3f} seconds",
        f"Complete requests:      {finished}",
        "Failed requests:        0",
        *([f"Non-2xx responses:      {refused}"] if refused else []),
        "Total transferred:      946 bytes",
        f"Total:        {mean}  {mean}   0.6    {mean}     {mean + 1}",
        f"  50%    {mean}",
        f"  99%    {mean}",
        f" 100%    {mean + 1} (longest request)",
        "",
    ]
    measured = read("ab", "\n".join(lines))
    assert (measured.figures.completed, measured.figures.failed["other"]) == (
        finished - refused,
        refused,
    )
    assert measured.figures.elapsed_s == ms / 1000
    if finished and not refused:
        times = (
            measured.figures.response.mean_s,
            measured.figures.response.p99_s,
            measured.figures.response.max_s,
        )
        assert times == (mean / 1000, mean / 1000, (mean + 1) / 1000)


@examples(30)
@given(good=COUNTS, refused=COUNTS, broken=COUNTS, errored=COUNTS, us=st.integers(1, 999))
def test_h2load_s_figures_come_back(
    good: int, refused: int, broken: int, errored: int, us: int
) -> None:
    total = good + refused + broken + errored
    out = f"""
finished in {us}.50ms, 1.00 req/s, 1KB/s
requests: {total} total, {total} started, {good + refused + broken} done, {good} succeeded, \
{refused + broken + errored} failed, {errored} errored, 0 timeout
status codes: {good} 2xx, 0 3xx, {refused} 4xx, {broken} 5xx
time for request:       64us       781us       {us}us        33us    92.60%
"""
    measured = read("h2load", out, load=Load("http://127.0.0.1/", 3, None, requests=total))
    assert measured.figures.elapsed_s == pytest.approx((us + 0.5) / 1000)
    assert measured.figures.completed == good
    kinds = [measured.figures.failed[kind] for kind in ("4xx", "5xx", "other")]
    assert kinds == [refused, broken, errored]
    assert measured.figures.availability == (good / total if total else None)
    if good and not refused and not broken:
        assert measured.figures.response.mean_s == pytest.approx(us / 1e6)


@examples(30)
@given(answered=COUNTS, refused=COUNTS, read_errors=COUNTS, elapsed=st.integers(1, 5999))
def test_wrk_s_figures_come_back(
    answered: int, refused: int, read_errors: int, elapsed: int
) -> None:
    refused = min(refused, answered)
    broken = f"  Socket errors: connect 0, read {read_errors}, write 0, timeout 0\n"
    odd = f"  Non-2xx or 3xx responses: {refused}\n"
    out = f"  {answered} requests in {elapsed / 100:.2f}s, 1MB read\n"
    out += broken * bool(read_errors) + odd * bool(refused) + "Requests/sec:  33655.60\n"
    measured = read("wrk", out)
    assert (measured.figures.completed, measured.figures.elapsed_s) == (
        answered - refused,
        elapsed / 100,
    )
    assert (measured.figures.failed["reset"], measured.figures.failed["other"]) == (
        read_errors,
        refused,
    )
    is_clean = answered > 0 and not refused and not read_errors
    assert (measured.figures.response.mean_s is not None) == is_clean


@examples(30)
@given(asked=COUNTS, failed=COUNTS, tenths=st.integers(1, 10**6), mean=st.integers(1, 10**6))
def test_locust_s_figures_come_back(asked: int, failed: int, tenths: int, mean: int) -> None:
    failed = min(failed, asked)
    said: dict[str, Any] = {
        "start_time": 1000.0,
        "last_request_timestamp": 1000.0 + tenths / 10,
        "num_requests": asked,
        "num_failures": failed,
        "total_response_time": asked * mean,
        "response_times": {str(mean): asked},
    }
    measured = read("locust", f"warning\n{json.dumps([said])}")
    assert (measured.figures.completed, measured.figures.failed["other"]) == (
        asked - failed,
        failed,
    )
    assert measured.figures.elapsed_s == pytest.approx(tenths / 10)
    if asked and not failed:
        assert measured.figures.response.mean_s == pytest.approx(mean / 1000)
        assert measured.figures.response.p99_s == (mean / 1000 if mean >= 10 else None)
