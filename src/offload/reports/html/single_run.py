"""The sections of one run: pictures beside their tables."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from offload.documents import Exhibit, Number, comparisons, notes, results_files
from offload.documents.rows import Row, case_name, memory_text, time_or_more
from offload.engine import figures
from offload.engine.figures import Comparison
from offload.reports.claims import verdicts
from offload.reports.gil import effects, effects_svg
from offload.reports.gil.effects import Effect
from offload.reports.html import charts
from offload.reports.html.parts import (
    Cell,
    Panel,
    Section,
    Table,
    count,
    number,
    rate,
    share,
    table,
    text,
)
from offload.reports.html.run import MeasuredRun
from offload.units import seconds

CASE, REQUESTED = "Server,task", "Requested"
OPEN_LOOP = (
    f"{REQUESTED}: the rate at which requests were sent, whether or not others were answered."
)
TIMES = {"Mean": None, **charts.PERCENTILES, "p99.9": 0.999}
WORK = {"python_s": "a loop in Python", "memory_s": "copies in memory"}
LOSSES = {"others_cpu": "CPU of other processes", "steal": "CPU that the hypervisor used"}

CLAIM_HEAD = ("Claim", "Verdict", "Published", "Here", "Statement", "Reason")


def sections(run: MeasuredRun) -> list[Section]:
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
        Section("memory", "Memory", _of_groups(run, _memory)),
        Section("gil", "GIL and event loop", tuple(_gil(run))),
        *machine(run),
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
    picture = None if found.chart is None else charts.ratios(found.chart)
    return Panel(table(found.caption, found.head, rows, found.about), picture, command)


def machine(run: MeasuredRun) -> list[Section]:
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
    head = (CASE, "Users", REQUESTED, "Rate", "From", "To", "Interval", "Rounds")
    own = table(
        f"Requests per second{name}",
        (*head, "Long run", "Its tool", "Ceiling", "Ceiling by", "Reached", "Warnings"),
        rows,
        [
            *(f"{word}: {results_files.DEFINITIONS[word]}." for word in (CASE, "Users", "Rate")),
            OPEN_LOOP,
        ],
    )
    return Panel(own, charts.rates(group), run.command)


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
        (CASE, "Users", REQUESTED, *TIMES),
        rows,
        [f"Mean: {results_files.DEFINITIONS['Response']}.", OPEN_LOOP],
    )
    return Panel(own, charts.latency(group), run.command)


def _memory(run: MeasuredRun, group: Sequence[Row], name: str) -> Panel | None:
    rows = [
        (
            text(case_name(row.first)),
            count(row.first.server.workers),
            _mib(row.memory_pss_mib),
        )
        for row in group
        if row.memory_pss_mib is not None
    ]
    if not rows:
        return None
    about = [f"Memory: {results_files.DEFINITIONS['Memory']}."]
    own = table(f"Peak memory{name}", (CASE, "Workers", "Memory"), rows, about)
    return Panel(own, charts.memory(group), run.command)


def _gil(run: MeasuredRun) -> Iterator[Panel]:
    yield from _of_groups(run, _gil_held)
    yield from _of_groups(run, _loop_lag)


def _gil_held(run: MeasuredRun, group: Sequence[Row], name: str) -> Panel | None:
    rows = [
        (text(case_name(row.first)), share(row.gil_hold))
        for row in group
        if row.gil_hold is not None
    ]
    about = [f"GIL held: {results_files.DEFINITIONS['GIL held']}."]
    own = table(f"GIL held{name}", (CASE, "GIL held"), rows, about)
    return Panel(own, charts.gil_held(group), run.command) if rows else None


def _loop_lag(run: MeasuredRun, group: Sequence[Row], name: str) -> Panel | None:
    rows = [
        (text(case_name(row.first)), count(row.first.case.users), _lag(lag))
        for row in group
        if (lag := row.loop_lag_p99_ms) is not None
    ]
    about = ["Loop lag: how late a 10 ms timer of the server's event loop was under load, p99."]
    own = table(f"Delay of the event loop{name}", (CASE, "Users", "Loop lag"), rows, about)
    return Panel(own, charts.loop_lag(group), run.command) if rows else None


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
        yield Panel(own, charts.machine_speed(run.records), run.command)


def _claims(run: MeasuredRun) -> Iterator[Panel]:
    for suite, found in run.claims.items():
        rows = []
        for verdict in found:
            published, here = verdicts.figures(verdict)
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
        yield Panel(own, charts.claims(found), run.command)


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    return min(values), statistics.median(values), max(values)


def _time(value: float | None, bound: float | None) -> Cell:
    return number(time_or_more(value, bound), value)


def _mib(value: float | None) -> Cell:
    return number(memory_text(value), value)


def _lag(value: float | None) -> Cell:
    return number(f"{value or 0.0:.1f} ms", value)


VERDICT_HEAD = ("Ratio", "From", "To", "Verdict", "Rounds")


def ratio_panels(run: MeasuredRun) -> Iterator[Panel]:
    """Yield the panels of a run's ratios."""
    compared = comparisons.RunComparison.of(run.records)
    for group in run.groups:
        if compared is None and (found := effects.effects(group)):
            yield Panel(
                _effects_table(found, run.group_name(group)),
                effects_svg.picture(found),
                run.command,
            )
    if compared is not None:
        one, other = compared.names
        verdict = compared.comparison.verdict
        cells = (text(f"{other} over {one}"), *_verdict_cells(compared.comparison))
        caption = "Ratio of the rates of two cases"
        picture = None if verdict.ratio is None else charts.compared(compared)
        yield Panel(table(caption, ("Cases", *VERDICT_HEAD), [cells]), picture, run.command)
    if pairs := effects.on_and_off_pairs(run.rows):
        rows = [
            (
                text(f"{pair.on.first.case.server}, {pair.on.first.case.task}"),
                *_verdict_cells(pair.comparison),
                text(f"{pair.sentence}."),
            )
            for pair in pairs
        ]
        head = ("Server, task", *VERDICT_HEAD, "Conclusion")
        own = table("Ratio of the rates without and with the GIL", head, rows)
        yield Panel(own, charts.on_off(pairs), run.command)


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
        for effect, what in zip(found, effects.descriptions(found), strict=True)
    ]
    head = ("Task", *VERDICT_HEAD, *effects.HEAD[1:4], "Workers", "Users", "Conclusion")
    return table(f"{effects_svg.TITLE}{name}", head, rows, effects.DEFINITIONS)
