"""The GIL effects as a picture: the ratio of each task as a dot with its interval."""

from __future__ import annotations

from collections.abc import Sequence

from offload import units
from offload.documents import effects
from offload.documents.effects import Effect
from offload.documents.pictures import (
    BLUE,
    GREY,
    NARROW,
    ORANGE,
    WIDE,
    Axis,
    Band,
    Bands,
    Ends,
    Layout,
    Line,
    Mark,
    Picture,
    log_axis,
    standalone_picture,
)
from offload.documents.rows import measured_when
from offload.engine import decisions
from offload.errors import StorageError

COLOURS = {decisions.FASTER: BLUE, decisions.SLOWER: ORANGE}
ENDS = Ends("\u2190 threads are faster", "processes are faster \u2192", (ORANGE, BLUE))
ABOUT = "Each dot is one task, with as many processes as threads. Its line is the 95 % interval."
TITLE = "Throughput in processes, relative to threads"
UNKNOWN = "no task was measured in threads and in processes"


def svg(found: Sequence[Effect]) -> str:
    """Draw the effects in their order, as a file; raise UserError if there are none."""
    if not found:
        raise StorageError(UNKNOWN, "choose another run")
    rows = [row for effect in found for row in (effect.threads, effect.processes)]
    own = picture(found, WIDE, heads=(TITLE,), feet=(ABOUT, measured_when(rows)))
    return standalone_picture(own)


def picture(
    found: Sequence[Effect],
    layout: Layout = NARROW,
    heads: Sequence[str] = (),
    feet: Sequence[str] = (),
) -> Picture:
    """Return the picture of effects."""
    pairs = zip(found, effects.descriptions(found), strict=True)
    own = [_band(effect, what) for effect, what in pairs]
    scale = ratio_axis([value for band in own for line in band.lines for value in line.values])
    drawn = Bands(own, scale, layout, reference=1.0, ends=ENDS, heads=heads, feet=feet)
    return Picture(drawn.svg, TITLE, ABOUT)


def ratio_axis(values: Sequence[float]) -> Axis:
    """Return the axis of ratios, which has a tick on both sides of 1."""
    return log_axis(values, lambda ratio: f"{ratio:g}x", includes=[0.99, 1.01])


def _band(effect: Effect, what: str) -> Band:
    task, colour = effect.threads.first.case.task, COLOURS.get(effect.verdict.outcome, GREY)
    low, high = effect.verdict.low, effect.verdict.high
    interval = "" if low is None or high is None else units.interval(low, high)
    is_disturbed = effect.verdict.outcome == decisions.DISTURBED
    mark = Mark(effect.ratio, f"{task}: {effects.ratio_text(effect)}", colour=colour)
    detail = "disturbed" if is_disturbed else interval
    line = Line((mark,), units.ratio(effect.ratio), low, high, detail)
    return Band(what or task, (line,), task if what else "")
