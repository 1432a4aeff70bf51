"""Samples arrive as they were, and bytes that are no samples are refused."""

from __future__ import annotations

from array import array
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offload.loads.engine.figures import Samples
from offload.loads.hosts import protocol
from offload.loads.hosts.protocol import BadSamplesError

times = st.floats(0, 1e7)
failures = st.tuples(st.sampled_from(["reset", "timeout", "4xx", "refused"]), times, times)


@st.composite
def samples(draw: st.DrawFn) -> Samples:
    ended = array("d", accumulate(draw(st.lists(st.floats(0, 1e3), max_size=20))))
    started = array("d", (draw(st.floats(0, end)) for end in ended))
    due = array("d", draw(st.lists(times, max_size=20)))
    return Samples(
        started=started,
        sent=array("d", started),
        ended=ended,
        failed=draw(st.lists(failures, max_size=10)),
        unfinished=draw(st.lists(times, max_size=5)),
        due=due,
        late=array("d", (0.001 for _ in due)),
        waited=array("d", (0.0 for _ in due)),
        over=draw(times),
        busy=draw(st.none() | st.floats(0, 1)),
        problem=draw(st.none() | st.just("builtin stopped")),
    )


@given(st.lists(samples(), max_size=3))
def test_samples_arrive_bit_by_bit(parts: list[Samples]) -> None:
    assert protocol.decode_samples(protocol.encode_samples(parts)) == parts


@given(st.lists(samples(), min_size=1, max_size=2), st.data())
def test_a_part_of_the_bytes_is_refused(parts: list[Samples], data: st.DataObject) -> None:
    encoded = protocol.encode_samples(parts)
    with pytest.raises(BadSamplesError):
        protocol.decode_samples(encoded[: data.draw(st.integers(0, len(encoded) - 1))])
    with pytest.raises(BadSamplesError):
        protocol.decode_samples(encoded + b"\0")


@given(st.lists(samples(), min_size=1, max_size=2), st.data())
def test_changed_bytes_are_refused_or_other_samples(
    parts: list[Samples], data: st.DataObject
) -> None:
    encoded = bytearray(protocol.encode_samples(parts))
    place = data.draw(st.integers(0, len(encoded) - 1))
    encoded[place] ^= data.draw(st.integers(1, 255))
    try:
        found = protocol.decode_samples(bytes(encoded))
    except BadSamplesError:
        return
    assert all(isinstance(part, Samples) for part in found)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Samples(started=array("d", [2.0]), sent=array("d"), ended=array("d", [3.0])), "lack"),
        (
            Samples(
                started=array("d", [1.0, 1.0]), sent=array("d", [1, 1]), ended=array("d", [3, 2])
            ),
            "order",
        ),
        (Samples(array("d", [3.0]), array("d", [3.0]), array("d", [2.0])), "before it started"),
        (Samples(unfinished=[float("nan")]), "not a number"),
        (Samples(unfinished=[float("inf")]), "not a number"),
        (Samples(over=float("nan")), "NaN|nan|not a time"),
        (Samples(due=array("d", [1.0])), "scheduled"),
    ],
)
def test_impossible_samples_are_refused(part: Samples, message: str) -> None:
    with pytest.raises(BadSamplesError, match=message):
        protocol.decode_samples(protocol.encode_samples([part]))


@pytest.mark.parametrize("data", [b"", b"\0" * 8, b"\xff" * 64, b"\0" * 7 + b"\2{}", b"x" * 9])
def test_bytes_that_are_no_samples_are_refused(data: bytes) -> None:
    with pytest.raises(BadSamplesError):
        protocol.decode_samples(data)
