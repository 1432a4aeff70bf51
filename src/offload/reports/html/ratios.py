"""The ratios of a run: of processes to threads, of two cases, and of a GIL that is off and on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offload.bench.analysis.comparison import Comparison
from offload.reports import comparison
from offload.reports.gil import effects, effects_svg, on_and_off
from offload.reports.gil.effects import Effect
from offload.reports.html import charts, repeat_command
from offload.reports.html.parts import Cell, Panel, Table, count, number, rate, share, table, text
from offload.reports.html.run import MeasuredRun

VERDICT_HEAD = ("Ratio", "From", "To", "Verdict", "Rounds")


def panels(run: MeasuredRun) -> Iterator[Panel]:
    """Yield the panels of a run's ratios."""
    compared = comparison.RunComparison.of(run.records)
    for group in run.groups:
        if compared is None and (found := effects.effects(group)):
            first = found[0]
            yield Panel(
                _effects_table(found, run.group_name(group)),
                effects_svg.picture(found),
                repeat_command.of_cases(run, first.threads, first.processes),
            )
    if compared is not None:
        one, other = compared.names
        verdict = compared.comparison.verdict
        cells = (text(f"{other} over {one}"), *_verdict_cells(compared.comparison))
        caption = "Ratio of the rates of two cases"
        picture = None if verdict.ratio is None else charts.compared(compared)
        yield Panel(
            table(caption, ("Cases", *VERDICT_HEAD), [cells]), picture, repeat_command.of_run(run)
        )
    if pairs := on_and_off.pairs(run.rows):
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
        yield Panel(own, charts.on_off(pairs), repeat_command.of_run(run))


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
