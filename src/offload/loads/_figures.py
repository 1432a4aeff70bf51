"""Plausibility checks of the figures parsed from a tool's output."""

from __future__ import annotations

from collections.abc import Mapping

from offload.loads import Figures, LoadResult

MAX = 1e15  # plausible count or time
COUNT, NUMBER = r"(\d{1,15})", r"(\d{1,15}(?:\.\d{1,9})?)"  # patterns of tools' output
NUMBERS = ("elapsed_s", "rate", "in_flight", "window_s")
TIMES = ("mean_s", "p50_s", "p90_s", "p95_s", "p99_s", "p999_s", "max_s")


def is_figure(value: object) -> bool:
    """Whether a JSON value is a plausible count or time."""
    return type(value) in (int, float) and 0 <= value < MAX  # type: ignore[operator]


def check_figures(result: LoadResult, name: str) -> LoadResult:
    """Return the result; if a figure is impossible, return a result that has only a problem."""
    wrong = _impossible(result.figures)
    if wrong is None or (result.problem and result.figures.completed is None):
        return result
    return LoadResult(problem=f"{name}'s result is implausible: {wrong}")


def _impossible(figures: Figures) -> str | None:
    """Name the first impossible figure, with its value."""
    if figures.completed is None:
        return "the number of completed requests is missing"
    if not isinstance(figures.failed, Mapping):
        return f"failed={figures.failed!r}"
    counts = {"completed": figures.completed, "offered": figures.offered, **figures.failed}
    numbers = {name: getattr(figures, name) for name in NUMBERS}
    times = {f"response.{name}": getattr(figures.response, name) for name in TIMES}
    shares = {"availability": figures.availability}
    kinds = [(counts, _is_count), (numbers | times, is_figure), (shares, _is_share)]
    for values, is_possible in kinds:
        for name, value in values.items():
            if value is not None and not is_possible(value):
                return f"{name}={value!r}"
    is_contradiction = figures.completed and figures.rate == 0
    return f"rate=0 with completed={figures.completed}" if is_contradiction else None


def _is_count(value: object) -> bool:
    return type(value) is int and is_figure(value)


def _is_share(value: object) -> bool:
    return is_figure(value) and value <= 1  # type: ignore[operator]
