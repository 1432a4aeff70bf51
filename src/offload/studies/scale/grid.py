"""The rates by processes and the workers of each in words, and for JSON."""

from __future__ import annotations

from offload.documents import Chart, Curve, Document, Spot, lines, notes
from offload.studies.scale.sweep import NEARLY_HIGHEST, Grid, Size
from offload.units import counted, percent


def document(grid: Grid) -> Document:
    """Return which sizes to use, and the rates with a row for each number of processes."""
    columns = sorted({workers for _, workers in grid.points})
    rows = [
        (str(processes), *(_cell(grid, (processes, workers)) for workers in columns))
        for processes in sorted({processes for processes, _ in grid.points})
    ]
    first, *more = sentences(grid)
    return Document(
        first,
        ("processes", *(counted(number, "worker") for number in columns)),
        tuple(rows),
        lines(*more, *_flags(grid)),
        (_chart(grid),),
        has_verdict=grid.disturbed is None,
        numbers=range(len(columns) + 1),
    )


def _chart(grid: Grid) -> Chart:
    """Return the rate over the workers of a process, with a line for each number of processes."""
    known = {
        size: (e.value, e.low, e.high) for size, e in grid.points.items() if e.value is not None
    }
    spots = [
        Spot(size[1], rate, f"{rate:.4g}/s with {_named(size)}", low, high)
        for size, (rate, low, high) in known.items()
    ]
    curves = [
        Curve(
            counted(processes, "process"),
            tuple((size[1], rate) for size, (rate, _, _) in known.items() if size[0] == processes),
        )
        for processes in sorted({size[0] for size in known})
    ]
    about = "The vertical lines are 95 % intervals."
    title = "Rate by processes and workers"
    return Chart(title, "workers of a process", "requests/s", tuple(spots), tuple(curves), about)


def values(grid: Grid) -> dict[str, object]:
    """Return the points for JSON; rates are in requests/s."""
    return {
        "over": ["processes", "workers"],
        "points": [
            {**_sizes(size), "rate": e.value, "rate_low": e.low, "rate_high": e.high}
            for size, e in grid.points.items()
        ],
        "highest_at": _sizes(grid.highest[0]),
        "enough_at": _sizes(grid.enough),
        "disturbed": grid.disturbed and str(grid.disturbed),
        "flags": _flags(grid),
    }


def sentences(grid: Grid) -> list[str]:
    """Return which sizes are enough, or why there is no verdict."""
    if grid.disturbed is not None:
        return [f"No verdict: {grid.disturbed}."]
    (highest, rate), enough = grid.highest, grid.enough
    words = f"Highest rate: {rate:.2f}/s with {_named(highest)}"
    if enough != highest:
        words += f"; at least {percent(NEARLY_HIGHEST)} of it with {_named(enough)}"
    widest = max(grid.points[size].half_width or 0.0 for size in (enough, highest))
    if widest > 1 - NEARLY_HIGHEST:
        return [f"{words}. This is not certain: the rates have intervals of +-{percent(widest)}."]
    return [f"{words}."]


def _cell(grid: Grid, size: Size) -> str:
    estimate = grid.points.get(size)
    if estimate is None or estimate.value is None:
        return "-"
    width = "" if estimate.half_width is None else f" +-{percent(estimate.half_width)}"
    return f"{estimate.value:.2f}/s{width}"


def _named(size: Size) -> str:
    return f"{counted(size[0], 'process')} of {counted(size[1], 'worker')}"


def _sizes(size: Size) -> dict[str, int]:
    return {"processes": size[0], "workers": size[1]}


def _flags(grid: Grid) -> list[str]:
    """Return the warnings on the windows of all points."""
    return notes.case_warnings((_named(size), grid.windows[size]) for size in grid.points)
