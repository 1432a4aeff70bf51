"""The gate of two runs that were measured at different times.

It detects less than a gate that measures both sides together, because the speed of the machine may
have changed between the runs. Records contain this speed. The interval of each ratio is widened by
the factor of its change, so that no smaller difference has a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from offload.bench.analysis import gate
from offload.bench.analysis.gate import CaseVerdict, GateTerms, Sides
from offload.bench.experiments.gate import GateResult, KeptRuns, check_baselines, gated_cases
from offload.engine import decisions, journal
from offload.engine.decisions import UNDECIDED, LogRatio
from offload.engine.figures import rate_of, speed_change
from offload.engine.intervals import GATE_ERROR
from offload.engine.record import WINDOW, Record, RunRecords, by_round, of_rate
from offload.errors import RunError, UsageError
from offload.flags import Flag
from offload.suites import Case, _case_syntax

MOST_LISTED = 6  # cases in an error message
SIDE_BY_SIDE = "measure both now, side by side: against=path/to/other/checkout"
UNKNOWN_SPEED = Flag("speed", "the change of the machine's speed is unknown", SIDE_BY_SIDE)


def compare(baseline: Path, run: Path, terms: GateTerms, names: Sequence[str] = ()) -> GateResult:
    """Judge the cases that both runs have, or only those with `names`.

    A case that is in the plan of both runs has no verdict if one of them ended before its rounds.
    Raise RunError if the runs have no case in common or were measured on different machines, and
    UsageError if they are the same run.
    """
    before, now = journal.read_planned(baseline), journal.read_planned(run)
    if {record.trial.run for record in before} & {record.trial.run for record in now}:
        what = f"{run.name} is the run that {baseline.name} was copied from"
        raise UsageError(what, "measure again, or name another run by run=")
    _check_machines(before, now, baseline.name)
    old, new = _cases_in_rounds(baseline, before), _cases_in_rounds(run, now)
    common = [case for case in new if case.key in {each.key for each in old}]
    if not common:
        what = f"{baseline.name} and {run.name} have no case in common"
        raise RunError(what, f"{baseline.name} has {_listed(old)}; {run.name} has {_listed(new)}")
    if names:
        chosen = {_case_syntax.find(name, common, "the cases of both runs") for name in names}
        common = [common[index] for index in sorted(chosen)]
    moved = speed_change(before, now)
    sides = [Sides(_windows(before, case), _windows(now, case)) for case in common]
    count = len(common) * len(terms.limits)
    ratios = [_ratio(each) for each in sides]
    found = gate.judge(sides, ratios, terms.loss, GATE_ERROR, count, moved or 0.0)
    verdicts = [_if_comparable(*each, moved) for each in zip(sides, found, strict=True)]
    check_baselines(verdicts, baseline)
    return GateResult(
        terms,
        tuple(gated_cases(common, sides, verdicts)),
        gate.judge_condition(terms, common, sides, GATE_ERROR),
        baseline.name,
        tuple(record for own in sides for record in (*own.baseline, *own.now)),
        run,
        KeptRuns(baseline.name, run.name, moved),
        () if names else _left_out(old, new),
    )


def _check_machines(before: Sequence[Record], now: Sequence[Record], baseline: str) -> None:
    """Raise RunError unless all windows of both runs were measured on the same, known machine."""
    one, other = (_machines(records) for records in (before, now))
    if not one or not other:
        raise RunError(f"the machine of {baseline} or of the run is unknown", SIDE_BY_SIDE)
    found = (journal.machine_difference(one[0], each) for each in (*one, *other))
    if (difference := next(filter(None, found), None)) is not None:
        what = f"{baseline} or a part of a run was measured on another machine ({difference})"
        raise RunError(what, SIDE_BY_SIDE)


def _machines(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return the environments of the windows, without those that do not identify a machine."""
    found = [record.environment for record in records if record.trial.kind == WINDOW]
    return [each for each in found if journal.is_identified_machine(each)]


def _cases_in_rounds(folder: Path, records: Sequence[Record]) -> list[Case]:
    """Return the cases of a run that were measured in rounds, or should be, each once."""
    plan = journal.load_plan(folder)
    planned = {plan.cases[place].key for block in plan.blocks for place in block.cases}
    measured = {record.key for record in records if record.trial.kind == WINDOW}
    cases = {case.key: case for case in plan.cases}
    return [case for key, case in cases.items() if key in planned | measured]


def _listed(cases: Sequence[Case]) -> str:
    names = [case.name for case in cases[:MOST_LISTED]]
    more = len(cases) - len(names)
    return f"{', '.join(names) or 'none'}{f' and {more} more' if more else ''}"


def _windows(records: Sequence[Record], case: Case) -> list[Record]:
    return RunRecords(records).of_case(case.key).windows()


def _ratio(sides: Sides) -> LogRatio | None:
    one, other = (
        [*by_round(of_rate(own), rate_of).values()] for own in (sides.baseline, sides.now)
    )
    return decisions.unpaired_ratio(one, other)


def _if_comparable(sides: Sides, verdict: CaseVerdict, moved: float | None) -> CaseVerdict:
    """Return the verdict, or UNDECIDED if the conditions of the two runs are not comparable."""
    if verdict.outcome not in gate.BY_INTERVAL:
        return verdict
    if _have_other_upstreams(sides):
        what = "its task fetched from another upstream"
        return replace(verdict, outcome=UNDECIDED, reason=Flag("upstream", what, SIDE_BY_SIDE))
    if moved is None:
        return replace(verdict, outcome=UNDECIDED, reason=UNKNOWN_SPEED)
    return verdict


def _have_other_upstreams(sides: Sides) -> bool:
    one, other = (
        {str(record.case.upstream) for record in own} for own in (sides.baseline, sides.now)
    )
    return bool(one and other) and one != other


def _left_out(old: Sequence[Case], new: Sequence[Case]) -> tuple[str, ...]:
    """Return the names of the cases that only one of the runs has."""
    both = {case.key for case in old} & {case.key for case in new}
    return tuple(case.name for case in (*old, *new) if case.key not in both)
