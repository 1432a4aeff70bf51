"""The GIL effects as an SVG picture: the ratio of each task as a dot with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from xml.sax.saxutils import escape

from offload.bench.stats import paired_test
from offload.errors import StorageError
from offload.reports.gil import effects
from offload.reports.gil.effects import Effect
from offload.reports.tables import summary

WIDTH, TOP, STEP, BOTTOM = 860, 72, 42, 66  # px: the picture, its head, a task, its foot
FIRST, LAST = 270, 680  # px: the ends of the axis, between the tasks and their ratios
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
# Medium lightness: visible on white and on black.
GREY, BLUE, ORANGE = "#777777", "#2f7fe0", "#cf6a0a"
FONT = "-apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"
ABOUT = "Each dot is one task, with as many processes as threads. Its line is the 95 % interval."
TITLE = "Throughput in processes, relative to threads"


def svg(found: Sequence[Effect]) -> str:
    """Draw the effects in their order; raise StorageError if there are none."""
    if not found:
        raise StorageError("no task was measured in threads and in processes", "choose another run")
    ends = [value for effect in found for value in _interval(effect)]
    low = max((tick for tick in TICKS if tick <= min(ends) and tick < 1), default=TICKS[0])
    high = min((tick for tick in TICKS if tick >= max(ends) and tick > 1), default=TICKS[-1])

    def place(ratio: float) -> float:
        share = math.log(min(max(ratio, low), high) / low) / math.log(high / low)
        return FIRST + share * (LAST - FIRST)

    bottom = TOP + STEP * len(found)
    parts = [
        _text(20, 28, TITLE, size=17, weight="bold"),
        _text(place(1) - 10, TOP - 12, "\u2190 threads are faster", "end", colour=ORANGE),
        _text(place(1) + 10, TOP - 12, "processes are faster \u2192", colour=BLUE),
    ]
    for tick in (tick for tick in TICKS if low <= tick <= high):
        parts.append(_line(place(tick), TOP, place(tick), bottom, 2 if tick == 1 else 0.5))
        label = "1x, the same" if tick == 1 else f"{tick:g}x"
        parts.append(_text(place(tick), bottom + 18, label, "middle"))
    for number, task in enumerate(zip(found, effects.descriptions(found), strict=True)):
        parts += _task(*task, TOP + STEP * (number + 0.5), place)
    rows = [row for effect in found for row in (effect.threads, effect.processes)]
    measured = summary.where(rows).replace("\n", " ").partition(" Pools")[0]
    parts += [_text(20, bottom + 42, ABOUT, size=12), _text(20, bottom + 58, measured, size=12)]
    size = f'viewBox="0 0 {WIDTH} {bottom + BOTTOM}" width="{WIDTH}" height="{bottom + BOTTOM}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}">'
    return "\n".join([head, f"<title>{TITLE}</title>", *parts, "</svg>"]) + "\n"


def _task(effect: Effect, what: str, y: float, place: Callable[[float], float]) -> Iterator[str]:
    """Draw what a task does and its name, then its dot and interval, then both as text."""
    task = effect.threads.first.case.task
    yield _text(20, y - 2, what or task, size=15, weight="bold")
    yield _text(20, y + 14, task, size=12)
    low, high = _interval(effect)
    colours = {paired_test.FASTER: BLUE, paired_test.SLOWER: ORANGE}
    colour = colours.get(effect.verdict.outcome, GREY)
    yield _line(place(low), y, place(high), y, 4, colour)
    yield f'<circle cx="{place(effect.ratio):.1f}" cy="{y:g}" r="6" fill="{colour}"/>'
    ratio, _, interval = effects.ratio_text(effect).partition(" ")
    yield _text(LAST + 20, y + 5, ratio, size=15, colour=colour, weight="bold")
    is_disturbed = effect.verdict.outcome == paired_test.DISTURBED
    yield _text(LAST + 80, y + 5, "disturbed" if is_disturbed else interval.strip("()"), size=12)


def _interval(effect: Effect) -> tuple[float, float]:
    """Return the ends of the interval; of one run of each, the ratio itself."""
    return effect.verdict.low or effect.ratio, effect.verdict.high or effect.ratio


def _text(
    x: float,
    y: float,
    words: str,
    anchor: str = "start",
    size: int = 13,
    colour: str = GREY,
    weight: str = "normal",
) -> str:
    style = f'text-anchor="{anchor}" font-size="{size}" fill="{colour}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:g}" {style}>{escape(words)}</text>'


def _line(x: float, y: float, x2: float, y2: float, width: float, colour: str = GREY) -> str:
    ends = f'x1="{x:.1f}" y1="{y:g}" x2="{x2:.1f}" y2="{y2:g}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width:g}"/>'
