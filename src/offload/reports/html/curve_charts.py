"""The pictures of a report that have curves: rates over workers or users, and speed over time."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from datetime import datetime

from offload.bench.analysis.latency_capacity import Capacity
from offload.bench.experiments.sweep import Sweep
from offload.bench.records.record import WINDOW, Record
from offload.reports.pictures import axis, curves
from offload.reports.pictures.curves import Curve, Plane, Point
from offload.reports.pictures.drawing import Picture
from offload.reports.pictures.style import BLUE, ORANGE
from offload.reports.tables import formats
from offload.units import seconds

MOST_PLACES = 240  # points of a curve over time
SPEED = {"python_s": ("Python", BLUE), "memory_s": ("memory", ORANGE)}


def scaling(sweep: Sweep) -> Picture | None:
    """Draw the rates over workers or users with the fitted model and its knee or peak."""
    known = [(number, e, e.value) for number, e in sweep.points if e.value is not None]
    if not known:
        return None
    points = [
        Point(number, value, f"{number} {sweep.over}: {formats.number(value)}/s", e.low, e.high)
        for number, e, value in known
    ]
    fit = sweep.choice.fit
    fitted = [
        (float(n), rate)
        for (n, _), rate in zip(sweep.points, sweep.predicted, strict=True)
        if rate is not None
    ]
    ends = [end for point in points for end in (point.y, point.high or 0.0)]
    plane = Plane(
        axis.linear([float(number) for number, _, _ in known], axis.plain),
        axis.linear([*ends, *(value for _, value in fitted)], axis.plain),
        sweep.over,
        "requests/s",
    )
    lines = [Curve("" if fit is None else fit.model, tuple(fitted), ORANGE)] if fitted else []
    peak = None if fit is None else fit.peak
    about = "The lines are 95 % intervals; the rule is at the knee or peak of the model."
    title = f"Requests per second over {sweep.over}"
    return Picture(curves.svg(plane, points, lines, peak), title, about)


def capacity(found: Capacity) -> Picture | None:
    """Draw the percentile of the response times over the request rate, with the capacity."""
    known = [step for step in found.steps if math.isfinite(step.response_s)]
    if not known:
        return None
    name = found.target.name
    points = [
        Point(s.rate, 1000 * s.response_s, f"{formats.number(s.rate)}/s: {seconds(s.response_s)}")
        for s in known
    ]
    limit_ms = 1000 * found.target.seconds
    rates = [step.rate for step in known]
    plane = Plane(
        axis.linear(rates, axis.plain),
        axis.linear([limit_ms, *(point.y for point in points)], axis.plain),
        "requests/s sent",
        f"{name} in ms",
    )
    limit = Curve(
        f"limit {seconds(found.target.seconds)}", ((0.0, limit_ms), (max(rates), limit_ms)), ORANGE
    )
    about = "Each dot is one load of a fresh server; the rule is at the capacity."
    title = f"{name} of the response times over the request rate"
    return Picture(curves.svg(plane, points, [limit], found.value), title, about)


def speed(records: Sequence[Record]) -> Picture | None:
    """Draw the speed of the machine during a run, relative to its median."""
    found = [
        Curve(name, tuple(_downsample(places)), colour)
        for field, (name, colour) in SPEED.items()
        if len(places := [*_speeds(records, field)]) > 1
    ]
    if not found:
        return None
    values = [y for curve in found for _, y in curve.places]
    minutes = [x for curve in found for x, _ in curve.places]
    plane = Plane(
        axis.linear(minutes, axis.plain),
        axis.linear(values, formats.share, low=min(values), high=1.0),
        "minutes since the start",
        "speed",
    )
    title = "Speed of the machine during the run, relative to its median"
    about = "By the durations of fixed pieces of work before the windows of each round."
    return Picture(curves.svg(plane, (), found), title, about)


def _speeds(records: Sequence[Record], field: str) -> Iterator[tuple[float, float]]:
    """Yield for each round the minutes since the start and its speed relative to the median."""
    times: dict[float, list[float]] = {}
    for record in records:
        seconds, started = getattr(record.resources.host, field), _timestamp(record.trial.utc)
        if record.trial.kind == WINDOW and seconds and started is not None:
            times.setdefault(started, []).append(seconds)
    if not times:
        return
    median = statistics.median(seconds for own in times.values() for seconds in own)
    first = min(times)
    for started, own in sorted(times.items()):
        yield (started - first) / 60, median / statistics.fmean(own)


def _timestamp(utc: str) -> float | None:
    try:
        return datetime.fromisoformat(utc).timestamp()
    except (ValueError, OverflowError):  # an edited file
        return None


def _downsample(places: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield the means of successive points: at most MOST_PLACES, however long the run is."""
    size = -(-len(places) // MOST_PLACES)
    for start in range(0, len(places), size):
        own = places[start : start + size]
        yield statistics.fmean(x for x, _ in own), statistics.fmean(y for _, y in own)
