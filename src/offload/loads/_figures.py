"""Plausibility checks of the figures parsed from a tool's output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from offload.loads import LoadResult

MAX = 1e15  # of anything that a tool counts
COUNT, NUMBER = r"(\d{1,15})", r"(\d{1,15}(?:\.\d{1,9})?)"  # as tools print them
METHOD = "response_how"
NUMERIC_FIELDS = ("elapsed_s", "rate", "in_flight", "window_s")


def is_figure(value: object) -> bool:
    """Whether a JSON value is a plausible count or time."""
    return type(value) in (int, float) and 0 <= value < MAX  # type: ignore[operator]


def check_figures(result: LoadResult, name: str) -> LoadResult:
    """Return the result, or a result with only a problem if a figure is impossible."""
    wrong = _impossible(result)
    if wrong is None or (result.problem and result.completed is None):
        return result
    return LoadResult(problem=f"{name}'s result is implausible: {wrong}")


def _impossible(result: LoadResult) -> str | None:
    """Name the first impossible figure, with its value."""
    if result.completed is None:
        return "the number of completed requests is missing"
    if not isinstance(result.failed, Mapping):
        return f"failed={result.failed!r}"
    counts = {"completed": result.completed, "offered": result.offered, **result.failed}
    times = [f.name for f in fields(result) if f.name.startswith("response_")]
    numbers = {name: getattr(result, name) for name in (*NUMERIC_FIELDS, *times) if name != METHOD}
    shares = {"availability": result.availability}
    kinds = [(counts, _is_count), (numbers, is_figure), (shares, _is_share)]
    for values, is_possible in kinds:
        for name, value in values.items():
            if value is not None and not is_possible(value):
                return f"{name}={value!r}"
    is_contradiction = result.completed and result.rate == 0
    return f"rate=0 with completed={result.completed}" if is_contradiction else None


def _is_count(value: object) -> bool:
    return type(value) is int and is_figure(value)


def _is_share(value: object) -> bool:
    return is_figure(value) and value <= 1  # type: ignore[operator]
