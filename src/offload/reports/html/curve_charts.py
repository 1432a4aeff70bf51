"""The picture of the machine's speed over time."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from datetime import datetime

from offload.bench.records.record import WINDOW, Record
from offload.reports.pictures import axis, curves
from offload.reports.pictures.curves import Curve, Plane
from offload.reports.pictures.drawing import BLUE, ORANGE, Picture
from offload.reports.tables import formats

MOST_PLACES = 240  # points of a curve over time
SPEED = {"python_s": ("Python", BLUE), "memory_s": ("memory", ORANGE)}


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
