"""The sections of a report in HTML: pictures beside their tables, of one run or of several."""

from __future__ import annotations

import shlex
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from offload import units
from offload.documents import (
    Document,
    Exhibit,
    Number,
    claim_tables,
    comparisons,
    html_charts,
    notes,
    results_files,
)
from offload.documents.comparisons import Effect
from offload.documents.html_charts import (
    GIL,
    INTERVALS,
    LAG,
    MEMORY,
    PERCENTILES,
    QUANTITIES,
    RATE,
    Quantity,
    Value,
    claims_picture,
    compared_picture,
    latency_picture,
    machine_speed,
    on_off_picture,
    quantity_picture,
    ratios_picture,
)
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
)
from offload.documents.rows import (
    Row,
    case_name,
    comparable_groups,
    python_after_load,
    rows,
    time_or_more,
)
from offload.documents.text import shortened
from offload.engine import claim_evaluation, figures, journal
from offload.engine.claim_evaluation import ClaimVerdict
from offload.engine.figures import Comparison
from offload.engine.plan import Plan
from offload.engine.record import Record
from offload.errors import StorageError
from offload.registry import catalog
from offload.units import CASE, USERS, percent, seconds


@dataclass(frozen=True)
class MeasuredRun:
    """The records of a run; `plan` is None if it is missing or was written by another version.

    `document` is the answer of its study; None if it has none.
    """

    folder: Path
    records: Sequence[Record]
    plan: Plan | None
    document: Document | None = None

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        return self.folder.name

    @property
    def suite(self) -> str | None:
        """The suite of the run, or the command that measured it, such as compare."""
        if self.plan is not None:
            return self.plan.suite
        return next((record.trial.suite for record in self.records if record.trial.suite), None)

    @property
    def suites(self) -> list[str]:
        """The published suites that the run measured."""
        found = dict.fromkeys(r.trial.suite for r in self.records if r.trial.suite)
        return [suite for suite in found if suite in catalog.suites()]

    @cached_property
    def command(self) -> str | None:
        """The command that started the run, for a shell; None if it is unknown."""
        argv = journal.load_argv(self.folder)
        return None if argv is None else shlex.join(["offload", *argv])

    @cached_property
    def rows(self) -> list[Row]:
        """One row for each case."""
        return rows(self.records)

    @cached_property
    def groups(self) -> list[list[Row]]:
        """The rows, grouped by machine, Python and upstream: a table shows only one group."""
        return comparable_groups(self.rows)

    def group_name(self, group: Sequence[Row]) -> str:
        """Return the name of a group for captions; empty if the run has only one group."""
        if len(self.groups) < 2:
            return ""
        python = python_after_load(group[0].first)
        number = next(n for n, own in enumerate(self.groups, start=1) if own is group)
        return f" ({number}: Python {python})"

    @cached_property
    def claims(self) -> Mapping[str, Sequence[ClaimVerdict]]:
        """The verdicts on published claims, by suite; suites without claims are left out."""
        found = {
            suite: claim_evaluation.evaluate_suite(suite, self.records, self.name)
            for suite in self.suites
        }
        return {suite: own for suite, own in found.items() if own}

    @cached_property
    def results(self) -> Mapping[str, object]:
        """The results as the JSON report has them."""
        return results_files.run_values(self.records)


def read_run(folder: Path, document: Document | None = None) -> MeasuredRun:
    """Read a run; raise StorageError if it has no record."""
    records = journal.read_planned(folder)
    if not records:
        raise StorageError(
            f"{folder.name} has no readable record", "choose another run by offload report RUN"
        )
    plan = journal.find_plan(folder)
    return MeasuredRun(folder, records, plan, document)


# The parts of a page: cells, tables, panels (a picture beside its table), and sections.
UNKNOWN = "-"
LONG = 40  # characters, above which a text needs a wide column
DIGITS = 6  # significant digits of a number that rows are sorted by


@dataclass(frozen=True)
class Cell:
    """The text of a cell, and its number (None: it has none), by which rows are sorted."""

    text: str
    value: float | None = None

    @property
    def key(self) -> str | None:
        """The number to sort by: empty if it equals the text, None if there is no number."""
        if self.value is None:
            return None
        key = f"{self.value:.{DIGITS}g}"
        return "" if key == self.text else key

    @property
    def is_long(self) -> bool:
        """Whether the text needs a wide column."""
        return len(self.text) > LONG


@dataclass(frozen=True)
class Table:
    """A table with a unique `caption`; the first cell of each row is the header of the row."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    definitions: tuple[str, ...] = ()

    @property
    def numeric(self) -> frozenset[int]:
        """The columns that have numbers."""
        columns = range(len(self.head))
        return frozenset(n for n in columns if any(row[n].value is not None for row in self.rows))


@dataclass(frozen=True)
class Panel:
    """A table with its picture, and the command that repeats the measurement."""

    table: Table
    picture: Picture | None = None
    command: str | None = None


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading; `name` is its id."""

    name: str
    title: str
    panels: tuple[Panel, ...]


def text(value: object) -> Cell:
    """Return a cell of text."""
    return Cell(UNKNOWN if value is None or value == "" else str(value))


def number(shown: str, value: float | None) -> Cell:
    """Return a cell that shows a number as a text; a dash if it is unknown."""
    return Cell(UNKNOWN if value is None else shown, value)


def count(value: int | None) -> Cell:
    """Return a cell of a whole number."""
    return Cell(UNKNOWN if value is None else str(value), value)


def share(value: float | None, digits: int = 0) -> Cell:
    """Return a cell of a share in percent."""
    return number(percent(value or 0.0, digits), value)


def rate(value: float | None) -> Cell:
    """Return a cell of a rate in requests/s."""
    return number(units.number(value or 0.0), value)


def table(
    caption: str,
    head: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    definitions: Sequence[str] = (),
) -> Table:
    """Return a table; leave out columns without values, and their definitions."""
    kept = [0, *(n for n in range(1, len(head)) if any(row[n].text != UNKNOWN for row in rows))]
    absent = tuple(f"{name}:" for n, name in enumerate(head) if n not in kept)
    return Table(
        caption,
        tuple(head[n] for n in kept),
        tuple(tuple(row[n] for n in kept) for row in rows),
        tuple(line for line in definitions if not line.startswith(absent)),
    )


REQUESTED = "Requested"
OPEN_LOOP = (
    f"{REQUESTED}: the rate at which requests were sent, whether or not others were answered."
)
TIMES = {"Mean": None, **PERCENTILES, "p99.9": 0.999}
WORK = {"python_s": "a loop in Python", "memory_s": "copies in memory"}
LOSSES = {"others_cpu": "CPU of other processes", "steal": "CPU that the hypervisor used"}

CLAIM_HEAD = ("Claim", "Verdict", "Published", "Here", "Statement", "Reason")


def run_sections(run: MeasuredRun) -> list[Section]:
    """Return the sections of a run, each with at least one panel.

    The exhibits of its document replace the panels of their section.
    """
    own: dict[str, list[Panel]] = {}
    for each in () if run.document is None else run.document.exhibits:
        own.setdefault(each.section, []).append(_exhibit(each, run.command))
    found = [
        Section("ratios", "Ratios", tuple(ratio_panels(run))),
        Section("rates", "Rates", _of_groups(run, _rates)),
        Section("latency", "Response times", _of_groups(run, _latency)),
        Section("memory", "Memory", _panels(run, MEMORY)),
        Section("gil", "GIL and event loop", (*_panels(run, GIL), *_panels(run, LAG))),
        *machine_sections(run),
        Section("claims", "Published claims", tuple(_claims(run))),
    ]
    found = [replace(each, panels=tuple(own.pop(each.title, each.panels))) for each in found]
    found += [Section(title.lower(), title, tuple(panels)) for title, panels in own.items()]
    return [section for section in found if section.panels]


def _exhibit(found: Exhibit, command: str | None) -> Panel:
    rows = [
        [number(cell.shown, cell.value) if isinstance(cell, Number) else text(cell) for cell in row]
        for row in found.rows
    ]
    picture = None if found.chart is None else ratios_picture(found.chart)
    return Panel(table(found.caption, found.head, rows, found.about), picture, command)


def machine_sections(run: MeasuredRun) -> list[Section]:
    """Return the section with the speed of the machine, if it is known."""
    panels = tuple(_machine(run))
    return [Section("machine", "Speed of the machine", panels)] if panels else []


def _of_groups(
    run: MeasuredRun, panel_of: Callable[[MeasuredRun, Sequence[Row], str], Panel | None]
) -> tuple[Panel, ...]:
    """Return a panel for each machine, Python and upstream."""
    panels = [panel_of(run, group, run.group_name(group)) for group in run.groups]
    return tuple(panel for panel in panels if panel is not None)


def _rates(run: MeasuredRun, group: Sequence[Row], name: str) -> Panel:
    rows = []
    for row in group:
        found, ceiling, has_figures = row.estimate, row.ceiling, row.problem is None
        notices = [str(row.problem)] if row.problem else notes.row_warnings(row)
        published = row.long.result.rate if row.long else None
        rows.append(
            (
                text(case_name(row.first)),
                count(row.first.case.users),
                rate(row.first.case.asked_rate),
                rate(row.rate) if has_figures else text("not available"),
                rate(found.low if found else None),
                rate(found.high if found else None),
                share(found.half_width if found else None, 1),
                count(found.n if found else None),
                rate(published),
                text(row.long.load.driver if row.long else None),
                rate(ceiling.rate if ceiling and has_figures else None),
                text(ceiling.kind if ceiling and has_figures else None),
                share(row.reached if has_figures else None),
                text("; ".join(notices)),
            )
        )
    head = (CASE, USERS, REQUESTED, units.RATE, "From", "To", "Interval", "Rounds")
    own = table(
        f"Requests per second{name}",
        (*head, "Long run", "Its tool", "Ceiling", "Ceiling by", "Reached", "Warnings"),
        rows,
        [
            *(f"{word}: {results_files.DEFINITIONS[word]}." for word in (CASE, USERS, units.RATE)),
            OPEN_LOOP,
        ],
    )
    return Panel(own, quantity_picture(group, RATE), run.command)


def _latency(run: MeasuredRun, group: Sequence[Row], name: str) -> Panel | None:
    rows = []
    for row in (row for row in group if row.problem is None):
        known = [row.response_mean_s if q is None else row.quantile(q) for q in TIMES.values()]
        if any(value is not None for value in known):
            bound = row.at_least_s
            cells = [_time(value, bound) for value in known]
            load = (count(row.first.case.users), rate(row.first.case.asked_rate))
            rows.append((text(case_name(row.first)), *load, *cells))
    if not rows:
        return None
    own = table(
        f"Response times{name}",
        (CASE, USERS, REQUESTED, *TIMES),
        rows,
        [f"Mean: {results_files.DEFINITIONS[units.RESPONSE]}.", OPEN_LOOP],
    )
    return Panel(own, latency_picture(group), run.command)


def _panels(run: MeasuredRun, quantity: Quantity) -> tuple[Panel, ...]:
    """Return a panel of a quantity for each machine, Python and upstream that has it."""

    def panel(run: MeasuredRun, group: Sequence[Row], name: str) -> Panel | None:
        further = [] if quantity.further is None else [quantity.further]
        rows = [
            (text(case_name(row.first)), *(count(of(row)) for _, of in further), _cell(value))
            for row in group
            if (value := quantity.value_of(row)) is not None
        ]
        if not rows:
            return None
        head = (CASE, *(column for column, _ in further), quantity.column)
        about = [f"{quantity.column}: {quantity.definition}."]
        own = table(f"{quantity.caption}{name}", head, rows, about)
        return Panel(own, quantity_picture(group, quantity), run.command)

    return _of_groups(run, panel)


def _machine(run: MeasuredRun) -> Iterator[Panel]:
    rows = [
        (
            text(WORK[field]),
            count(len(times)),
            *(number(seconds(value), value) for value in _spread(times)),
            share(figures.change_of_times(times)),
        )
        for field, times in figures.work_times(run.records).items()
        if times
    ]
    for field, what in LOSSES.items():
        hosts = [record.resources.host for record in run.records]
        known = [value for host in hosts if (value := getattr(host, field)) is not None]
        if known:
            cells = (share(value) for value in _spread(known))
            rows.append((text(what), count(len(known)), *cells, text(None)))
    if rows:
        head = ("What", "Windows", "Lowest", "Median", "Highest", "Changed")
        about = ("Changed: the 90th percentile of the durations over the 10th, minus 1.",)
        own = table("Durations of fixed work before each window, and lost CPU", head, rows, about)
        yield Panel(own, machine_speed(run.records), run.command)


def _claims(run: MeasuredRun) -> Iterator[Panel]:
    for suite, found in run.claims.items():
        rows = []
        for verdict in found:
            published, here = claim_tables.figures(verdict)
            rows.append(
                (
                    text(verdict.claim),
                    text(verdict.verdict),
                    number(published, verdict.published),
                    number(here, verdict.here),
                    text(verdict.statement),
                    text(verdict.reason),
                )
            )
        own = table(f"Claims about {suite}", CLAIM_HEAD, rows)
        yield Panel(own, claims_picture(found), run.command)


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    return min(values), statistics.median(values), max(values)


def _time(value: float | None, bound: float | None) -> Cell:
    return number(time_or_more(value, bound), value)


VERDICT_HEAD = ("Ratio", "From", "To", "Verdict", "Rounds")


def ratio_panels(run: MeasuredRun) -> Iterator[Panel]:
    """Yield the panels of a run's ratios."""
    compared = comparisons.RunComparison.of(run.records)
    for group in run.groups:
        if compared is None and (found := comparisons.effects(group)):
            yield Panel(
                _effects_table(found, run.group_name(group)),
                html_charts.effects_picture(found),
                run.command,
            )
    if compared is not None:
        one, other = compared.names
        verdict = compared.comparison.verdict
        cells = (text(f"{other} over {one}"), *_verdict_cells(compared.comparison))
        caption = "Ratio of the rates of two cases"
        picture = None if verdict.ratio is None else compared_picture(compared)
        yield Panel(table(caption, ("Cases", *VERDICT_HEAD), [cells]), picture, run.command)
    if pairs := comparisons.on_and_off_pairs(run.rows):
        rows = [
            (
                text(f"{pair.on.first.case.server}/{pair.on.first.case.task}"),
                *_verdict_cells(pair.comparison),
                text(f"{pair.sentence}."),
            )
            for pair in pairs
        ]
        head = (CASE, *VERDICT_HEAD, "Conclusion")
        own = table("Ratio of the rates without and with the GIL", head, rows)
        yield Panel(own, on_off_picture(pairs), run.command)


def _verdict_cells(compared: Comparison) -> tuple[Cell, ...]:
    verdict = compared.verdict
    ratios = (verdict.ratio, verdict.low, verdict.high)
    least = "at least " if compared.at_least else ""
    return (
        *(number(f"{value or 0.0:.2f}x", value) for value in ratios),
        text(f"{least}{verdict.outcome}"),
        count(verdict.pairs),
    )


def _effects_table(found: Sequence[Effect], name: str) -> Table:
    rows = [
        (
            text(effect.threads.first.case.task),
            *_verdict_cells(effect.comparison),
            share(effect.threads.gil_hold),
            rate(effect.threads.rate),
            rate(effect.processes.rate),
            count(effect.threads.first.server.workers),
            count(effect.threads.first.case.users),
            text(f"{what}. {effect.reading}." if what else f"{effect.reading}."),
        )
        for effect, what in zip(found, comparisons.describe_effects(found), strict=True)
    ]
    counts = (units.WORKERS, USERS)
    head = ("Task", *VERDICT_HEAD, *comparisons.EFFECTS_HEAD[1:4], *counts, "Conclusion")
    return table(f"{html_charts.EFFECTS_TITLE}{name}", head, rows, comparisons.EFFECTS_DEFINITIONS)


def compared_effects(run: MeasuredRun) -> list[tuple[str, str, Effect]]:
    """Return each task with its group, its description, and its effect, one group after another."""
    return [
        (f"{effect.threads.first.case.task}{run.group_name(group)}", what, effect)
        for group in run.groups
        for found in [comparisons.effects(group)]
        for what, effect in zip(comparisons.describe_effects(found), found, strict=True)
    ]


# Several runs: each has a column in tables and a line in pictures. Rounds of different runs are not
# paired, so no ratio between runs is computed.
MOST_LINES = 160  # lines in a picture: with more values, only the table is shown
MOST_NAME_LETTERS = 56  # length of a label in a picture, or of a name in its legend
LOOKS = tuple(zip(SHAPES, PALETTE, strict=True))  # of the runs: cli.runner takes no more
ABOUT = "Rounds of different runs are not paired: there is no ratio between runs."


Values = dict[str, list[Value | None]]  # by case: one value for each run


def run_columns(runs: Sequence[MeasuredRun]) -> list[Section]:
    """Return the sections of runs, each with one panel."""
    ratios = _ratio_values(runs)
    found = [
        _section("ratios", html_charts.EFFECTS_TITLE, ratios, runs, html_charts.ratio_axis, 1.0)
    ]
    for each in QUANTITIES:
        values = _of_cases(runs, each.value_of)
        found.append(_section(each.name, each.title, values, runs, each.axis))
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


def _ratio_values(runs: Sequence[MeasuredRun]) -> Values:
    found: Values = {}
    for number_of_run, run in enumerate(runs):
        compared = compared_effects(run)
        names = (f"{task}: {what}" if what else task for task, what, _ in compared)
        for name, (_, _, effect) in zip(_unique(names), compared, strict=True):
            verdict = effect.verdict
            value = Value(effect.ratio, comparisons.ratio_text(effect), verdict.low, verdict.high)
            found.setdefault(name, [None] * len(runs))[number_of_run] = value
    return found


def _section(
    name: str,
    title: str,
    values: Values,
    runs: Sequence[MeasuredRun],
    axis: Callable[[Sequence[float]], Axis],
    reference: float | None = None,
) -> Section | None:
    """Return the section of a quantity, with a rule at `reference`; None if no run has it."""
    if not values:
        return None
    rows = [(text(case), *(_cell(value) for value in own)) for case, own in values.items()]
    own = table(f"{title}, by run", (CASE, *(run.name for run in runs)), rows, [ABOUT])
    bands = _bands(values, runs)
    picture = None
    if sum(len(band.lines) for band in bands) <= MOST_LINES:
        lines = [line for band in bands for line in band.lines]
        scale = axis([value for line in lines for value in line.values])
        drawn = Bands(bands, scale, SEVERAL, keys=_keys(runs), reference=reference).svg
        about = INTERVALS if any(line.low is not None for line in lines) else ""
        picture = Picture(drawn, f"{title}, by run", about)
    return Section(name, title, (Panel(own, picture, _commands(runs)),))


def _commands(runs: Sequence[MeasuredRun]) -> str | None:
    """Return the commands that started all runs, one after the other; None if one is unknown."""
    commands = [run.command for run in runs]
    known = [command for command in commands if command is not None]
    return "; ".join(dict.fromkeys(known)) if len(known) == len(commands) else None


def _cell(value: Value | None) -> Cell:
    return text(None) if value is None else number(value.shown, value.value)


def _bands(values: Values, runs: Sequence[MeasuredRun]) -> list[Band]:
    """Return a band for each case, with a line for each run that has a value."""
    found = []
    for case, own in values.items():
        lines = [
            Line((Mark(v.value, f"{case}, {run.name}: {v.shown}", *look),), v.shown, v.low, v.high)
            for v, run, look in zip(own, runs, LOOKS, strict=False)
            if v is not None
        ]
        found.append(Band(shortened(case, MOST_NAME_LETTERS), tuple(lines)))
    return found


def _keys(runs: Sequence[MeasuredRun]) -> list[Key]:
    """Return the legend: the mark and the name of each run."""
    names = (shortened(run.name, MOST_NAME_LETTERS) for run in runs)
    return [Key(name, *look) for name, look in zip(names, LOOKS, strict=False)]
