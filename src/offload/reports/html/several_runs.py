"""The sections of several runs: each run has a column in tables and a line in pictures.

Rounds of different runs are not paired, so no ratio between runs is computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from offload.documents.pictures import (
    PALETTE,
    SEVERAL,
    SHAPES,
    Axis,
    Band,
    Bands,
    Key,
    Line,
    Mark,
    Picture,
    linear_axis,
    log_axis,
    plain_label,
)
from offload.documents.rows import Row, case_name, memory_text, rate_text, time_or_more
from offload.documents.text import shortened
from offload.reports.gil import effects, effects_svg
from offload.reports.html import answer
from offload.reports.html.parts import Cell, Panel, Section, number, table, text
from offload.reports.html.run import MeasuredRun
from offload.units import percent

MOST_LINES = 160  # lines in a picture: with more values, only the table is shown
MOST_LETTERS = 56  # length of a label in a picture, or of a name in its legend
ABOUT = "Rounds of different runs are not paired: there is no ratio between runs."


@dataclass(frozen=True)
class Value:
    """A value with its interval and its text."""

    value: float
    shown: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Quantity:
    """A value of each case; the axis of its picture is logarithmic, or linear from 0."""

    name: str
    title: str
    value_of: Callable[[Row], Value | None]
    is_log: bool = True


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
    return None if row.gil_hold is None else Value(row.gil_hold, percent(row.gil_hold))


def _lag(row: Row) -> Value | None:
    value = row.loop_lag_p99_ms
    return None if value is None else Value(value, f"{value:.1f} ms")


QUANTITIES = (
    Quantity("rates", "Requests per second", _rate),
    Quantity("latency", "Response time, p99", _p99),
    Quantity("memory", "Peak memory in MiB", _memory, is_log=False),
    Quantity("gil", "Share of a single task's time in which it holds the GIL", _gil, is_log=False),
    Quantity("lag", "Delay of the event loop under load, p99, in ms", _lag),
)

Values = dict[str, list[Value | None]]  # by case: one value for each run


def sections(runs: Sequence[MeasuredRun]) -> list[Section]:
    """Return the sections of runs, each with one panel."""
    found = [_section("ratios", effects_svg.TITLE, _ratios(runs), runs, has_one=True)]
    for quantity in QUANTITIES:
        values = _of_cases(runs, quantity.value_of)
        found.append(_section(quantity.name, quantity.title, values, runs, quantity.is_log))
    return [section for section in found if section is not None]


def _of_cases(runs: Sequence[MeasuredRun], value_of: Callable[[Row], Value | None]) -> Values:
    found: Values = {}
    for number_of_run, run in enumerate(runs):
        for name, row in zip(_unique(map(_name, run.rows)), run.rows, strict=True):
            if (value := value_of(row)) is not None:
                found.setdefault(name, [None] * len(runs))[number_of_run] = value
    return found


def _name(row: Row) -> str:
    """Return the name of a row: its case and its load."""
    case = row.first.case
    requested = "" if case.asked_rate is None else f", {case.asked_rate:.4g}/s requested"
    return f"{case_name(row.first)}, {case.users} users{requested}"


def _unique(names: Iterable[str]) -> Iterator[str]:
    """Yield names that are unique in their run: a number is appended to a repeated one."""
    count = Counter[str]()
    for name in names:
        count[name] += 1
        yield name if count[name] == 1 else f"{name} ({count[name]})"


def _ratios(runs: Sequence[MeasuredRun]) -> Values:
    found: Values = {}
    for number_of_run, run in enumerate(runs):
        compared = answer.compared_effects(run)
        names = (f"{task}: {what}" if what else task for task, what, _ in compared)
        for name, (_, _, effect) in zip(_unique(names), compared, strict=True):
            verdict = effect.verdict
            value = Value(effect.ratio, effects.ratio_text(effect), verdict.low, verdict.high)
            found.setdefault(name, [None] * len(runs))[number_of_run] = value
    return found


def _section(
    name: str,
    title: str,
    values: Values,
    runs: Sequence[MeasuredRun],
    is_log: bool = True,
    has_one: bool = False,
) -> Section | None:
    """Return the section of a quantity; None if no run has it."""
    if not values:
        return None
    rows = [(text(case), *(_cell(value) for value in own)) for case, own in values.items()]
    head = ("Case", *(run.name for run in runs))
    own = table(f"{title}, by run", head, rows, [ABOUT])
    picture = _picture(title, values, runs, is_log, has_one)
    return Section(name, title, (Panel(own, picture, _commands(runs)),))


def _commands(runs: Sequence[MeasuredRun]) -> str | None:
    """Return the commands that started all runs, one after the other; None if one is unknown."""
    commands = [run.command for run in runs]
    known = [command for command in commands if command is not None]
    return "; ".join(dict.fromkeys(known)) if len(known) == len(commands) else None


def _cell(value: Value | None) -> Cell:
    return text(None) if value is None else number(value.shown, value.value)


def _picture(
    title: str, values: Values, runs: Sequence[MeasuredRun], is_log: bool, has_one: bool
) -> Picture | None:
    looks = [*zip(SHAPES, PALETTE, strict=True)][: len(runs)]
    found = []
    for case, own in values.items():
        lines = [
            Line((Mark(v.value, f"{case}, {run.name}: {v.shown}", *look),), v.shown, v.low, v.high)
            for v, run, look in zip(own, runs, looks, strict=True)
            if v is not None
        ]
        found.append(Band(shortened(case, MOST_LETTERS), tuple(lines)))
    if sum(len(band.lines) for band in found) > MOST_LINES:
        return None
    ends = [value for band in found for line in band.lines for value in line.values]
    keys = [
        Key(shortened(run.name, MOST_LETTERS), *look) for run, look in zip(runs, looks, strict=True)
    ]
    reference = 1.0 if has_one else None
    scale = _axis(ends, is_log, has_one)
    drawn = Bands(found, scale, SEVERAL, keys=keys, reference=reference).svg
    has_intervals = any(line.low is not None for band in found for line in band.lines)
    caption = "The lines are 95 % intervals." if has_intervals else ""
    return Picture(drawn, f"{title}, by run", caption)


def _axis(values: Sequence[float], is_log: bool, has_one: bool) -> Axis:
    if has_one:
        return effects_svg.ratio_axis(values)
    if is_log:
        return log_axis(values, plain_label)
    return linear_axis(values, plain_label)
