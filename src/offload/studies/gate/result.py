"""The plan of a gate, and its result: of a run of both sides, or of two runs that were kept.

A gate has a block for each case: its baseline and its current version. Two runs that were measured
at different times show less, because the speed of the machine may have changed between them.
Records contain this speed: the interval of each ratio is widened by the factor of its change, so
that no smaller difference has a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from offload.engine import decisions, figures, journal, plan
from offload.engine.decisions import LOSS, UNDECIDED, LogRatio
from offload.engine.figures import rate_of
from offload.engine.intervals import GATE_ERROR, Estimate
from offload.engine.plan import Block, Plan
from offload.engine.record import WINDOW, Record, RunRecords, average_by_round, select_for_rate
from offload.errors import Flag, RunError, UsageError
from offload.studies.gate import origins, rule
from offload.studies.gate.rule import (
    DISTURBED,
    FAILS,
    NO_BASELINE,
    CaseVerdict,
    ConditionVerdict,
    Gate,
    GateTerms,
    Sides,
    cases_now,
    sides_of,
)
from offload.suites import Case, _case

PASSED, RED = "no loss", "loss"  # verdicts of a whole gate, in addition to UNDECIDED


@dataclass(frozen=True)
class GatedCase:
    """A case of a gate: its verdict, its rates in requests/s, and its windows on both sides."""

    name: str
    verdict: CaseVerdict
    now: Estimate
    baseline: Estimate
    sides: Sides


@dataclass(frozen=True)
class KeptRuns:
    """The names of the two runs of a gate that were measured at different times.

    `moved` is the share by which the machine's speed changed during the runs and between them.
    """

    baseline: str
    now: str
    moved: float | None

    def smallest(self, loss: float) -> float | None:
        """Return the smallest loss that can be detected, a share; None if no loss can be.

        A smaller loss can be explained by the change of the machine's speed.
        """
        return None if self.moved is None else 1 - (1 - loss) / (1 + self.moved)


@dataclass(frozen=True)
class GateResult:
    """The result of a gate. `kept` is None if both sides were measured in the same run.

    `left_out` are the names of cases that only one of two kept runs has.
    """

    terms: GateTerms
    cases: tuple[GatedCase, ...]
    condition: ConditionVerdict | None
    baseline: str
    records: tuple[Record, ...]
    folder: Path
    kept: KeptRuns | None = None
    left_out: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """RED if a case fails or the condition does not hold, PASSED if all pass, or UNDECIDED."""
        if self.failed or (self.condition is not None and self.condition.holds is False):
            return RED
        holds = self.condition is None or self.condition.holds
        return PASSED if holds and not self.open else UNDECIDED

    @property
    def failed(self) -> list[GatedCase]:
        """The cases that lost more than the gate allows, or whose requests fail."""
        return self._with(LOSS, FAILS)

    @property
    def open(self) -> list[GatedCase]:
        """The cases without a verdict."""
        return self._with(UNDECIDED, DISTURBED, NO_BASELINE)

    def _with(self, *outcomes: str) -> list[GatedCase]:
        return [case for case in self.cases if case.verdict.outcome in outcomes]


def gate_plan(cases: Sequence[Case], terms: GateTerms, budget_s: float) -> Plan:
    """Return the plan of a gate that measures each case together with that from `terms.against`.

    Raise UserError if the other side cannot be started, or if both sides of a case are the same.
    """
    if not cases:
        raise UsageError("a gate needs at least one case", "name cases by cases=3/quote+4/quote")
    others = origins.counterparts(cases, terms.against)
    found = origins.differences(cases, others)
    complete = replace(terms, differences=tuple(found))
    all_cases = [case for pair in zip(others, cases, strict=True) for case in pair]
    blocks = tuple(Block((n, n + 1), ((n, n + 1),)) for n in range(0, len(all_cases), 2))
    return Plan(
        "gate",
        tuple(all_cases),
        plan.new_seed(),
        None,
        Gate(gate=complete, budget_s=budget_s),
        blocks=blocks,
    )


def check_sides(planned: Plan) -> None:
    """Raise UsageError if the differences of the sides have changed since the start of a gate."""
    assert isinstance(planned.rule, Gate)
    known = planned.rule.gate.differences
    others = [planned.cases[block.cases[0]] for block in planned.blocks]
    found = tuple(origins.differences(cases_now(planned), others))
    if found != known:
        before, now = ("; ".join(each) for each in (known, found))
        what = f"the sides have changed: at the start {before}, and now {now}"
        raise UsageError(what, "start a new gate by its command")


def evaluate(measured: Plan, records: Sequence[Record], folder: Path) -> GateResult:
    """Judge the cases of a gate's run; raise RunError if no case has a baseline."""
    assert isinstance(measured.rule, Gate)
    terms, cases = measured.rule.gate, cases_now(measured)
    sides = [*map(sides_of, measured.states(records))]
    verdicts = rule.judge_cases(sides, terms.loss, len(cases) * len(terms.limits))
    check_baselines(verdicts, folder)
    return GateResult(
        terms,
        tuple(gated_cases(cases, sides, verdicts)),
        rule.judge_condition(terms, cases, sides),
        terms.against,
        tuple(records),
        folder,
    )


def gated_cases(
    cases: Sequence[Case], sides: Sequence[Sides], verdicts: Sequence[CaseVerdict]
) -> list[GatedCase]:
    """Return the cases of a gate with their rates."""
    names = _case.unique_names(cases)
    return [
        GatedCase(
            name, verdict, figures.estimate_rate(own.now), figures.estimate_rate(own.baseline), own
        )
        for name, own, verdict in zip(names, sides, verdicts, strict=True)
    ]


def check_baselines(verdicts: Sequence[CaseVerdict], folder: Path) -> None:
    """Raise RunError if no case has a baseline, because the gate would compare nothing."""
    if all(verdict.outcome == NO_BASELINE for verdict in verdicts):
        reasons = [verdict.reason for verdict in verdicts if verdict.reason is not None]
        why = f": {reasons[-1].message}" if reasons else ""
        raise RunError(f"no case has a rate in the baseline{why}", f"see the records in {folder}")


MOST_LISTED = 6  # cases in an error message
SIDE_BY_SIDE = "measure both now, side by side: against=path/to/other/checkout"
UNKNOWN_SPEED = Flag("speed", "the change of the machine's speed is unknown", SIDE_BY_SIDE)


def compare_kept(
    baseline: Path, run: Path, terms: GateTerms, names: Sequence[str] = ()
) -> GateResult:
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
        chosen = {_case.find_case(name, common, "the cases of both runs") for name in names}
        common = [common[index] for index in sorted(chosen)]
    moved = figures.speed_change(before, now)
    sides = [Sides(_windows(before, case), _windows(now, case)) for case in common]
    count = len(common) * len(terms.limits)
    ratios = [_ratio(each) for each in sides]
    found = rule.judge(sides, ratios, terms.loss, GATE_ERROR, count, moved or 0.0)
    verdicts = [_if_comparable(*each, moved) for each in zip(sides, found, strict=True)]
    check_baselines(verdicts, baseline)
    return GateResult(
        terms,
        tuple(gated_cases(common, sides, verdicts)),
        rule.judge_condition(terms, common, sides, GATE_ERROR),
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
    planned = {plan.cases[index].key for block in plan.blocks for index in block.cases}
    measured = {record.key for record in records if record.trial.kind == WINDOW}
    cases = {case.key: case for case in plan.cases}
    return [case for key, case in cases.items() if key in planned | measured]


def _listed(cases: Sequence[Case]) -> str:
    names = [case.name for case in cases[:MOST_LISTED]]
    more = len(cases) - len(names)
    return f"{', '.join(names) or 'none'}{f' and {more} more' if more else ''}"


def _windows(records: Sequence[Record], case: Case) -> list[Record]:
    return RunRecords(records).select_case(case.key).windows()


def _ratio(sides: Sides) -> LogRatio | None:
    one, other = (
        [*average_by_round(select_for_rate(own), rate_of).values()]
        for own in (sides.baseline, sides.now)
    )
    return decisions.unpaired_ratio(one, other)


def _if_comparable(sides: Sides, verdict: CaseVerdict, moved: float | None) -> CaseVerdict:
    """Return the verdict, or UNDECIDED if the conditions of the two runs are not comparable."""
    if verdict.outcome not in rule.BY_INTERVAL:
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
