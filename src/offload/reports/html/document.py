"""The document of a study in a page: its charts, drawn as pictures."""

from __future__ import annotations

from collections.abc import Sequence

from offload.documents import Chart, Document
from offload.reports.html.parts import Panel, Section, number, table, text
from offload.reports.pictures import axis, curves
from offload.reports.pictures.curves import Curve, Plane, Point
from offload.reports.pictures.drawing import BLUE, PALETTE, Picture


def sections(found: Document, command: str | None) -> list[Section]:
    """Return a section for the charts of a document, each beside its values."""
    panels = tuple(_panel(each, command) for each in found.charts)
    return [Section("pictures", "Pictures", panels)] if panels else []


def _panel(chart: Chart, command: str | None) -> Panel:
    names = [each.name or each.words for each in chart.spots]
    rows = [
        (text(name), number(f"{each.x:.4g}", each.x), number(f"{each.y:.4g}", each.y))
        for name, each in zip(names, chart.spots, strict=True)
    ]
    head = ("Point", chart.x_title, chart.y_title)
    return Panel(table(chart.title, head, rows), _picture(chart), command)


def _picture(chart: Chart) -> Picture:
    lines = [
        Curve(each.name, each.places, colour)
        for each, colour in zip(chart.curves, PALETTE, strict=False)
    ]
    xs = [each.x for each in chart.spots]
    plane = Plane(
        axis.linear(xs, axis.plain),
        axis.linear([*_ends(chart)], axis.plain),
        chart.x_title,
        chart.y_title,
    )
    colours = {place: curve.colour for curve in lines for place in curve.places}
    points = [
        Point(s.x, s.y, s.words, s.low, s.high, s.name, colours.get((s.x, s.y), BLUE))
        for s in chart.spots
    ]
    return Picture(curves.svg(plane, points, lines, chart.rule), chart.title, chart.about)


def _ends(chart: Chart) -> Sequence[float]:
    return [end for spot in chart.spots for end in (spot.y, spot.high or 0.0)]
