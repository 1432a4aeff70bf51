"""The pictures of a report: how each kind of value is drawn."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from offload import units
from offload.documents import (
    BAD,
    GOOD,
    PLAIN,
    UNCLEAR,
    Curve,
    Ratio,
    Ratios,
    claim_tables,
    comparisons,
)
from offload.documents.comparisons import Effect, OnAndOff, RunComparison
from offload.documents.pictures import (
    BLUE,
    CIRCLE,
    DIAMOND,
    GREEN,
    GREY,
    NARROW,
    ORANGE,
    PURPLE,
    RED,
    STROKE,
    WIDE,
    Axis,
    Band,
    Bands,
    Ends,
    Key,
    Layout,
    Line,
    Mark,
    Picture,
    Plane,
    linear_axis,
    log_axis,
    plain_label,
    plane_svg,
    standalone_picture,
)
from offload.documents.results_files import DEFINITIONS
from offload.documents.rows import (
    Row,
    case_name,
    measured_when,
    memory_text,
    rate_text,
    request_of,
    settings_of,
    share_text,
    time_or_more,
)
from offload.documents.text import shortened
from offload.engine import decisions
from offload.engine.claim_evaluation import ClaimVerdict
from offload.engine.record import WINDOW, Record
from offload.errors import StorageError
from offload.units import seconds

MOST_BANDS = 80  # rows in a picture: with more rows, only the table is shown
MOST_LETTERS = 36  # length of a label: it shares a line of a narrow picture with a figure
MOST_SMALL = 58  # length of a detail: it has a line of its own
COLOURS = {
    "threads": ORANGE,
    "processes": BLUE,
    "loop": PURPLE,
    "prefork": GREEN,
    "pipes": RED,
}
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
MARKS = {"p50": CIRCLE, "p90": STROKE, "p95": STROKE, "p99": DIAMOND}
LATENCY_KEYS = (Key("p50", CIRCLE, BLUE), Key("p90, p95", STROKE, BLUE), Key("p99", DIAMOND, BLUE))
TONES = {  # of outcomes
    decisions.FASTER: GOOD,
    decisions.SLOWER: BAD,
    decisions.UNRESOLVED: UNCLEAR,
    decisions.DISTURBED: UNCLEAR,
}
INTERVALS = "The lines are 95 % intervals."
PUBLISHED_KEYS = (Key("here", CIRCLE, BLUE), Key("published", DIAMOND, ORANGE))


def compared_picture(run: RunComparison) -> Picture | None:
    """Draw the ratio of two cases."""
    verdict, (one, other) = run.comparison.verdict, run.names
    ratio, tone = verdict.ratio or 0.0, TONES.get(verdict.outcome, PLAIN)
    words = units.ratio(ratio, verdict.low, verdict.high)
    found = Ratio(other, words, ratio, verdict.low, verdict.high, tone)
    title, sides = f"Rate of {other}, relative to {one}", ("slower", "faster")
    return ratios_picture(Ratios(title, (found,), INTERVALS, sides))


def ratios_picture(chart: Ratios) -> Picture | None:
    """Draw ratios with their intervals; None if there are none, or too many."""
    found = []
    for each in chart.ratios:
        here, colour = f"{each.name}: {each.words}", _colour(each.tone)
        marks = [Mark(each.value, here, colour=colour)]
        if each.published:
            value, words = each.published
            marks = [Mark(each.value, f"{each.name}, here: {each.words}")]
            marks.append(Mark(value, f"{each.name}, published: {words}", DIAMOND, ORANGE))
        lines = (Line(tuple(marks), each.words, each.low, each.high),)
        found.append(Band(_label(each.name), lines))
    if not found or len(found) > MOST_BANDS:
        return None
    keys = PUBLISHED_KEYS if any(each.published for each in chart.ratios) else ()
    ends = None if chart.sides is None else _ends(chart.sides)
    scale = ratio_axis(_values(found))
    drawn = Bands(found, scale, keys=keys, reference=1.0, ends=ends).svg
    return Picture(drawn, chart.title, chart.about)


def on_off_picture(pairs: Sequence[OnAndOff]) -> Picture | None:
    """Draw the ratio of each server without its GIL to the same with it; None without ratios."""
    found = [
        Ratio(
            f"{pair.on.first.case.server}/{pair.on.first.case.task}",
            comparisons.on_and_off_ratio_text(pair),
            verdict.ratio,
            verdict.low,
            verdict.high,
            TONES.get(verdict.outcome, PLAIN),
        )
        for pair in pairs
        if (verdict := pair.comparison.verdict).ratio is not None
    ]
    title = "Rate without the GIL, relative to the rate with it"
    sides = ("faster with its GIL", "faster without")
    return ratios_picture(Ratios(title, tuple(found), INTERVALS, sides))


def claims_picture(found: Sequence[ClaimVerdict]) -> Picture | None:
    """Draw the measured ratio of each claim beside the published one; None without ratios."""
    ratios = []
    for each in found:
        if each.here is None or not each.unit.startswith("x"):
            continue
        words, (published, _) = (
            units.ratio(each.here, each.low, each.high),
            claim_tables.figures(each),
        )
        known = None if each.published is None else (each.published, published)
        ratios.append(Ratio(each.claim, words, each.here, each.low, each.high, published=known))
    return ratios_picture(
        Ratios("Claimed ratios and those measured here", tuple(ratios), INTERVALS)
    )


@dataclass(frozen=True)
class Value:
    """A value with its interval and its text."""

    value: float
    shown: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Quantity:
    """A figure of each case; the axis of its picture is logarithmic, or linear from 0.

    `label` formats the ticks. The table beside the picture of one run has a `caption`, and the
    values in `column`; `further` is the head and the value of a column before it.
    """

    name: str
    title: str
    value_of: Callable[[Row], Value | None]
    label: Callable[[float], str] = plain_label
    is_log: bool = True
    caption: str = ""
    column: str = ""
    definition: str = ""
    further: tuple[str, Callable[[Row], int | None]] | None = None

    def axis(self, values: Sequence[float]) -> Axis:
        """Return the axis for values."""
        make = log_axis if self.is_log else linear_axis
        return make(values, self.label)


def _rate(row: Row) -> Value | None:
    found, value = row.estimate, row.rate
    if value is None or row.problem is not None:
        return None
    low, high = (None, None) if found is None else (found.low, found.high)
    return Value(value, rate_text(row), low, high)


def _p99(row: Row) -> Value | None:
    value = row.quantile(0.99)
    return None if value is None else Value(value, time_or_more(value, row.at_least_s))


def _memory(row: Row) -> Value | None:
    value = row.memory_pss_mib
    return None if value is None else Value(value, memory_text(value))


def _gil(row: Row) -> Value | None:
    return None if row.gil_hold is None else Value(row.gil_hold, share_text(row.gil_hold))


def _lag(row: Row) -> Value | None:
    value = row.loop_lag_p99_ms
    return None if value is None else Value(value, f"{value:.1f} ms")


RATE = Quantity("rates", "Requests per second", _rate)
P99 = Quantity("latency", "Response time, p99", _p99, seconds)
MEMORY = Quantity(
    "memory",
    "Peak memory in MiB",
    _memory,
    is_log=False,
    caption="Peak memory",
    column=units.MEMORY,
    definition=DEFINITIONS[units.MEMORY],
    further=(units.WORKERS, lambda row: row.first.server.workers),
)
GIL = Quantity(
    "gil",
    "Share of a single task's time in which it holds the GIL",
    _gil,
    share_text,
    is_log=False,
    caption=units.GIL_HELD,
    column=units.GIL_HELD,
    definition=DEFINITIONS[units.GIL_HELD],
)
LAG = Quantity(
    "lag",
    "Delay of the event loop under load, p99, in ms",
    _lag,
    caption="Delay of the event loop",
    column=units.LOOP_LAG,
    definition="how late a 10 ms timer of the server's event loop was under load, p99",
    further=(units.USERS, lambda row: row.first.case.users),
)
QUANTITIES = (RATE, P99, MEMORY, GIL, LAG)


def quantity_picture(rows: Sequence[Row], quantity: Quantity) -> Picture | None:
    """Draw a quantity of each case with its interval, on a linear axis with a line from 0."""
    known = {id(row): value for row in rows if (value := quantity.value_of(row)) is not None}

    def line(row: Row) -> Line | None:
        if (found := known.get(id(row))) is None:
            return None
        colour = COLOURS.get(row.first.case.server.removeprefix("plain_"), GREY)
        mark = Mark(found.value, f"{case_name(row.first)}: {found.shown}", colour=colour)
        ends = (found.low, found.high) if quantity.is_log else (0.0, found.value)
        return Line((mark,), found.shown, *ends)

    about = "Each line begins at 0."
    if quantity.is_log:
        about = INTERVALS if any(value.low is not None for value in known.values()) else ""
    return rows_picture(rows, line, quantity.title, about, quantity.axis)


def latency_picture(rows: Sequence[Row]) -> Picture | None:
    """Draw percentiles of the response times of each case."""

    def line(row: Row) -> Line | None:
        known = {name: row.quantile(share) for name, share in PERCENTILES.items()}
        times = {name: value for name, value in known.items() if value}
        if len(times) < len(PERCENTILES):
            return None
        words = {name: time_or_more(times[name], row.at_least_s) for name in times}
        case = case_name(row.first)
        marks = [
            Mark(value, f"{case}, {name}: {words[name]}", MARKS[name])
            for name, value in times.items()
        ]
        figure = f"{words['p50']}, {words['p99']}"
        return Line(tuple(marks), figure, times["p50"], times["p99"])

    about = "A dot is the median, a diamond the 99th percentile; strokes are p90 and p95."
    return rows_picture(rows, line, "Response times", about, P99.axis, LATENCY_KEYS)


def rows_picture(
    rows: Sequence[Row],
    line_of: Callable[[Row], Line | None],
    title: str,
    about: str,
    axis: Callable[[Sequence[float]], Axis],
    keys: Sequence[Key] = (),
) -> Picture | None:
    """Draw a value of each row, by task; None if no row, or more than MOST_BANDS, have one."""
    known = {id(row): line for row in rows if row.problem is None and (line := line_of(row))}
    own = [row for row in rows if id(row) in known]
    if not own or len(own) > MOST_BANDS:
        return None
    found = [*_by_task(own, lambda row: known[id(row)])]
    return Picture(Bands(found, axis(_values(found)), keys=keys).svg, title, about)


def _by_task(rows: Sequence[Row], line_of: Callable[[Row], Line]) -> Iterator[Band]:
    """Yield a band for each row.

    Each task has a heading if there are several tasks, and any of them has several rows.
    """
    tasks: dict[str, list[Row]] = {}
    for row in rows:
        tasks.setdefault(row.first.case.task, []).append(row)
    has_headings = len(tasks) < len(rows) and len(tasks) > 1
    several_users = {
        task: len({r.first.case.users for r in own}) > 1 for task, own in tasks.items()
    }
    for task, own in tasks.items():
        if has_headings:
            yield Band(_label(task))
        for row in own:
            first = row.first
            name = first.case.server if has_headings else f"{first.case.server}/{first.case.task}"
            users = f", {first.case.users} users" if several_users[task] else ""
            rate = first.case.asked_rate
            requested = "" if rate is None else f"{rate:.4g}/s requested"
            more = (settings_of(first), request_of(first), requested)
            detail = shortened(", ".join(part for part in more if part), MOST_SMALL)
            yield Band(_label(f"{name}{users}"), (line_of(row),), detail)


def _colour(tone: str | None) -> str:
    return {GOOD: BLUE, BAD: ORANGE}.get(tone or PLAIN, GREY)


def _ends(sides: tuple[str, str]) -> Ends:
    return Ends(f"\u2190 {sides[0]}", f"{sides[1]} \u2192", (ORANGE, BLUE))


def _values(found: Sequence[Band]) -> list[float]:
    return [value for band in found for line in band.lines for value in line.values]


def _label(text: str) -> str:
    return shortened(text, MOST_LETTERS)


MOST_PLACES = 240  # points of a curve over time
SPEED = {"python_s": "Python", "memory_s": "memory"}


def machine_speed(records: Sequence[Record]) -> Picture | None:
    """Draw the speed of the machine during a run, relative to its median."""
    found = [
        Curve(name, tuple(_downsample(places)))
        for field, name in SPEED.items()
        if len(places := [*_speeds(records, field)]) > 1
    ]
    if not found:
        return None
    values = [y for curve in found for _, y in curve.places]
    minutes = [x for curve in found for x, _ in curve.places]
    plane = Plane(
        linear_axis(minutes, plain_label),
        linear_axis(values, share_text, low=min(values), high=1.0),
        "minutes since the start",
        "speed",
    )
    title = "Speed of the machine during the run, relative to its median"
    about = "By the durations of fixed pieces of work before the windows of each round."
    return Picture(plane_svg(plane, (), found), title, about)


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


# The GIL effects: the ratio of each task as a dot with its interval


EFFECT_COLOURS = {decisions.FASTER: BLUE, decisions.SLOWER: ORANGE}
EFFECT_ENDS = Ends("\u2190 threads are faster", "processes are faster \u2192", (ORANGE, BLUE))
EFFECTS_ABOUT = (
    "Each dot is one task, with as many processes as threads. Its line is the 95 % interval."
)
EFFECTS_TITLE = "Throughput in processes, relative to threads"
NO_EFFECTS = "no task was measured in threads and in processes"


def effects_svg(found: Sequence[Effect]) -> str:
    """Draw the effects in their order, as a file; raise UserError if there are none."""
    if not found:
        raise StorageError(NO_EFFECTS, "choose another run")
    rows = [row for effect in found for row in (effect.threads, effect.processes)]
    own = effects_picture(
        found, WIDE, heads=(EFFECTS_TITLE,), feet=(EFFECTS_ABOUT, measured_when(rows))
    )
    return standalone_picture(own)


def effects_picture(
    found: Sequence[Effect],
    layout: Layout = NARROW,
    heads: Sequence[str] = (),
    feet: Sequence[str] = (),
) -> Picture:
    """Return the picture of effects."""
    pairs = zip(found, comparisons.describe_effects(found), strict=True)
    own = [_band(effect, what) for effect, what in pairs]
    scale = ratio_axis([value for band in own for line in band.lines for value in line.values])
    drawn = Bands(own, scale, layout, reference=1.0, ends=EFFECT_ENDS, heads=heads, feet=feet)
    return Picture(drawn.svg, EFFECTS_TITLE, EFFECTS_ABOUT)


def ratio_axis(values: Sequence[float]) -> Axis:
    """Return the axis of ratios, which has a tick on both sides of 1."""
    return log_axis(values, lambda ratio: f"{ratio:g}x", includes=[0.99, 1.01])


def _band(effect: Effect, what: str) -> Band:
    task, colour = effect.threads.first.case.task, EFFECT_COLOURS.get(effect.verdict.outcome, GREY)
    low, high = effect.verdict.low, effect.verdict.high
    interval = "" if low is None or high is None else units.interval(low, high)
    is_disturbed = effect.verdict.outcome == decisions.DISTURBED
    mark = Mark(effect.ratio, f"{task}: {comparisons.ratio_text(effect)}", colour=colour)
    detail = "disturbed" if is_disturbed else interval
    line = Line((mark,), units.ratio(effect.ratio), low, high, detail)
    return Band(what or task, (line,), task if what else "")
