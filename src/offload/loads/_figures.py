"""Whether figures that were read from the output of a tool can be true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from offload.loads import Measured

MOST = 1e15  # of anything that a tool counts
COUNT, NUMBER = r"(\d{1,15})", r"(\d{1,15}(?:\.\d{1,9})?)"  # as tools print them
HOW = "response_how"
PLAIN = ("elapsed_s", "rate", "in_flight", "window_s")


def is_figure(value: object) -> bool:
    """Say whether a value of JSON is a number that a tool can have counted or timed."""
    return type(value) in (int, float) and 0 <= value < MOST  # type: ignore[operator]


def checked(measured: Measured, name: str) -> Measured:
    """Give what was measured, or only a problem where a figure cannot be."""
    wrong = _impossible(measured)
    if wrong is None or (measured.problem and measured.completed is None):
        return measured
    return Measured(problem=f"{name}'s result makes no sense: {wrong}")


def _impossible(measured: Measured) -> str | None:
    """Name the first figure that cannot be, with its value."""
    if measured.completed is None:
        return "it does not say how many requests were completed"
    if not isinstance(measured.failed, Mapping):
        return f"failed={measured.failed!r}"
    counts = {"completed": measured.completed, "offered": measured.offered, **measured.failed}
    times = [f.name for f in fields(measured) if f.name.startswith("response_")]
    numbers = {name: getattr(measured, name) for name in (*PLAIN, *times) if name != HOW}
    shares = {"availability": measured.availability}
    kinds = [(counts, _is_count), (numbers, is_figure), (shares, _is_share)]
    for values, can_be in kinds:
        for name, value in values.items():
            if value is not None and not can_be(value):
                return f"{name}={value!r}"
    is_nothing = measured.completed and measured.rate == 0
    return f"rate=0 with completed={measured.completed}" if is_nothing else None


def _is_count(value: object) -> bool:
    return type(value) is int and is_figure(value)


def _is_share(value: object) -> bool:
    return is_figure(value) and value <= 1  # type: ignore[operator]
