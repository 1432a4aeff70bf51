"""The gate of compare_runs: for each case a block of its baseline and its current version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from offload.bench.analysis import gate
from offload.bench.analysis.gate import (
    DISTURBED,
    FAILS,
    NO_BASELINE,
    CaseVerdict,
    ConditionVerdict,
    GateTerms,
    Sides,
)
from offload.bench.target import origins
from offload.engine import plan
from offload.engine.decisions import LOSS, UNDECIDED
from offload.engine.figures import estimate_rate
from offload.engine.intervals import Estimate
from offload.engine.plan import Block, Gate, Plan
from offload.engine.record import Record
from offload.errors import RunError, UsageError
from offload.suites import Case, _case_syntax

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
        plan.GATE,
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
    found = tuple(origins.differences(planned.cases_now, others))
    if found != known:
        before, now = ("; ".join(each) for each in (known, found))
        what = f"the sides have changed: at the start {before}, and now {now}"
        raise UsageError(what, "start a new gate by its command")


def evaluate(measured: Plan, records: Sequence[Record], folder: Path) -> GateResult:
    """Judge the cases of a gate's run; raise RunError if no case has a baseline."""
    assert isinstance(measured.rule, Gate)
    terms, cases = measured.rule.gate, measured.cases_now
    sides = [state.sides for state in measured.states(records)]
    verdicts = gate.judge_cases(sides, terms.loss, len(cases) * len(terms.limits))
    check_baselines(verdicts, folder)
    return GateResult(
        terms,
        tuple(gated_cases(cases, sides, verdicts)),
        gate.judge_condition(terms, cases, sides),
        terms.against,
        tuple(records),
        folder,
    )


def gated_cases(
    cases: Sequence[Case], sides: Sequence[Sides], verdicts: Sequence[CaseVerdict]
) -> list[GatedCase]:
    """Return the cases of a gate with their rates."""
    names = _case_syntax.unique_names(cases)
    return [
        GatedCase(name, verdict, estimate_rate(own.now), estimate_rate(own.baseline), own)
        for name, own, verdict in zip(names, sides, verdicts, strict=True)
    ]


def check_baselines(verdicts: Sequence[CaseVerdict], folder: Path) -> None:
    """Raise RunError if no case has a baseline, because the gate would compare nothing."""
    if all(verdict.outcome == NO_BASELINE for verdict in verdicts):
        reasons = [verdict.reason for verdict in verdicts if verdict.reason is not None]
        why = f": {reasons[-1].message}" if reasons else ""
        raise RunError(f"no case has a rate in the baseline{why}", f"see the records in {folder}")
