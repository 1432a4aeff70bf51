"""The ratios of a run: processes to threads, two cases, GIL off to GIL on, or those of a gate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from offload.bench.analysis.comparison import Comparison
from offload.bench.experiments import gate
from offload.bench.experiments.gate import GatedCase
from offload.bench.planning.plan import Gate, Plan
from offload.errors import UserError
from offload.reports import comparison
from offload.reports.gil import effects, effects_svg, on_and_off
from offload.reports.gil.effects import Effect
from offload.reports.html import charts
from offload.reports.html.parts import Cell, Panel, Table, count, number, rate, share, table, text
from offload.reports.html.run import MeasuredRun

VERDICT_HEAD = ("Ratio", "From", "To", "Verdict", "Rounds")
OF_GATE = ("Ratio: the rate now over that of the baseline; From, To: its 98 % interval.",)


def panels(run: MeasuredRun) -> Iterator[Panel]:
    """Yield the panels of a run's ratios."""
    if run.plan is not None and isinstance(run.plan.rule, Gate):
        yield from _gate(run, run.plan)
        return
    compared = comparison.RunComparison.of(run.records)
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
        yield Panel(own, charts.on_off(pairs), run.command)


def _gate(run: MeasuredRun, plan: Plan) -> Iterator[Panel]:
    """Yield the panel of a gate: only the two sides of a case are measured in the same rounds."""
    try:
        found = gate.evaluate(plan, run.records, run.folder)
    except UserError:  # no case has a rate in the baseline
        return
    rows = [(text(case.name), *_gate_cells(case)) for case in found.cases]
    own = table("Rates now, relative to the baseline", ("Case", *VERDICT_HEAD), rows, OF_GATE)
    yield Panel(own, charts.gate(found.cases), run.command)


def _gate_cells(case: GatedCase) -> Iterator[Cell]:
    change = case.verdict.change
    for value in (change.value, change.low, change.high):
        known = value if value is not None and math.isfinite(value) else None
        yield number(f"{known or 0.0:.3f}x", known)
    yield text(case.verdict.outcome)
    yield count(case.verdict.rounds)


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
