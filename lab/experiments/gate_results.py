"""The measured gates of gate_check: stored in lab/data/gates.jsonl, and checked together.

Gates of several machines count together, because each gate compares two sides that were measured
in alternation on one machine.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import DATA, json_lines
from lab.method import resampling
from lab.method.method_check import CheckResult
from offload.engine import host, intervals
from offload.engine.figures import Measured, rate_of
from offload.engine.record import RunRecords, pairs_by_round
from offload.errors import StorageError
from offload.studies.gate import formats
from offload.studies.gate import result as gates
from offload.studies.gate.result import GateResult
from offload.units import percent

FILE = DATA / "gates.jsonl"
LIMIT, BUDGET = 0.05, 600.0  # the loss that a gate allows, a share; s of measuring
FOUND = 28 / 30  # share of the gates with a loss of 12 % that must be red
AT_LIMIT = 0.9  # share of the gates with a loss of 5 % whose interval must contain it
RESAMPLED = 5  # gates that are resampled for each gate of a case against itself
AT_LIMIT_FACTOR = 5  # times as many resampled gates with a loss of exactly LIMIT: 1 % are red
MIN_PAIRS = 20  # rounds of a case: resamples of fewer rounds do not follow a t distribution


@dataclass(frozen=True)
class Kind:
    """A kind of gates: A/A (`loss` 0), or with a seeded loss, as a share.

    `share` is the number of these gates divided by the number of A/A gates.
    """

    name: str
    loss: float
    share: float

    def title(self) -> str:
        """Return a name for the table."""
        return f"a loss of {percent(self.loss)}" if self.loss else "A/A"


KINDS = (Kind("AA", 0.0, 1.0), Kind("12", 0.12, 0.5), Kind("5", 0.05, 1 / 6))


@dataclass(frozen=True)
class FinishedGate:
    """A measured gate of one case.

    `kind` is the name of a Kind. `outcome` is the result of the gate, `verdict` that of its case.
    `ratio` is the rate now over that of the baseline, with its interval; None if there is no
    verdict. `pairs` are the rates of the baseline and of now, in requests/s, of each round.
    `seconds` is the duration of the measurement, `utc` its start.
    """

    kind: str
    number: int
    case: str
    outcome: str
    verdict: str
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    rounds: int
    seconds: float
    utc: str
    machine: str
    pairs: tuple[tuple[float, float], ...]

    def text(self) -> str:
        """Return the outcome of its case as one line."""
        task = self.case.rpartition("/")[2]
        change = f"{task}: {self._change()}"
        return f"{self.verdict}, {change}, {self.rounds} rounds, {self.seconds:.0f} s"

    def _change(self) -> str:
        if self.ratio is None or self.ratio_low is None or self.ratio_high is None:
            return "-"
        return formats.change_text(Measured(self.ratio, self.ratio_low, self.ratio_high))

    def contains(self, ratio: float) -> bool:
        """Whether the interval of the gate contains a ratio."""
        low, high = self.ratio_low, self.ratio_high
        return low is not None and high is not None and low <= ratio <= high


def finish_gate(kind: Kind, number: int, result: GateResult, seconds: float) -> FinishedGate:
    """Return the finished gate of a result; `seconds` is the duration of its measurement."""
    [case] = result.cases
    change, first = case.verdict.change, result.records[0]
    is_known = change.value is not None
    baseline, now = (RunRecords(result.records).at(case_index).windows() for case_index in (0, 1))
    return FinishedGate(
        kind=kind.name,
        number=number,
        case=case.name,
        outcome=result.outcome,
        verdict=case.verdict.outcome,
        ratio=change.value,
        ratio_low=change.low if is_known else None,
        ratio_high=change.high if is_known else None,
        rounds=case.verdict.rounds,
        seconds=round(seconds, 1),
        utc=first.trial.utc,
        machine=host.sentence(first.environment),
        pairs=tuple(pairs_by_round(baseline, now, rate_of)),
    )


def load(file: Path = FILE) -> list[FinishedGate]:
    """Read the stored gates; raise StorageError if the file is damaged."""
    found = json_lines.load(file, FinishedGate)
    if any(len(pair) != 2 for gate in found for pair in gate.pairs):
        raise StorageError(f"{file}: a round has not two rates", "remove its damaged line")
    return found


def append(found: FinishedGate, file: Path = FILE) -> None:
    """Store a gate; raise StorageError."""
    json_lines.append(file, found)


def missing(kinds: Sequence[Kind], finished: Sequence[FinishedGate]) -> list[CheckResult]:
    """Return an unknown result for each kind that has no gate."""
    known = {found.kind for found in finished}
    return [
        CheckResult(kind.title(), "no gate", "at least one gate", None)
        for kind in kinds
        if kind.name not in known
    ]


def check(finished: Sequence[FinishedGate]) -> list[CheckResult]:
    """Return the result of each requirement."""
    results = []
    for kind in KINDS:
        own = [found for found in finished if found.kind == kind.name]
        if own and kind.loss == 0:
            results += [*_check_same(own), *check_resampled(own)]
        elif own:
            results += _check_lost(kind, own)
    return results


def _check_same(own: Sequence[FinishedGate]) -> list[CheckResult]:
    """Check the A/A gates."""
    red = sum(found.outcome == gates.RED for found in own)
    green = sum(found.outcome == gates.PASSED for found in own)
    required = f"at most {percent(resampling.MAX_RED)}"
    passed = red <= resampling.MAX_RED * len(own)
    return [
        CheckResult("A/A, red", with_interval(red, len(own)), required, passed),
        _reported("A/A, green", green, len(own), "as many as possible"),
        _time("A/A", own),
    ]


def check_resampled(own: Sequence[FinishedGate]) -> list[CheckResult]:
    """Check gates resampled from the rounds of the A/A gates."""
    pools: dict[str, list[tuple[float, float]]] = {}
    for found in own:
        pools.setdefault(found.case, []).extend(found.pairs)
    known = [rounds for rounds in pools.values() if len(rounds) >= MIN_PAIRS]
    if not known:
        why = f"no case has {MIN_PAIRS} rounds"
        return [CheckResult("resampled", why, "measure more gates", None)]
    count, rng = RESAMPLED * len(own), random.Random(0)  # noqa: S311 - no secret
    results = []
    for cases in (1, 10):
        for loss in (0.0, LIMIT):
            trials = AT_LIMIT_FACTOR * count if loss else count
            tested = resampling.gate_test(known, loss, LIMIT, trials, cases, rng)
            name = f"resampled, {cases} case{'s' if cases > 1 else ''}, loss {percent(loss)}"
            most = percent(resampling.MAX_RED)
            required = f"an interval that contains {most} or less" if loss else f"at most {most}"
            passed = tested.passed if loss else tested.hits <= resampling.MAX_RED * trials
            results.append(CheckResult(name, with_interval(tested.hits, trials), required, passed))
    return results


def _check_lost(kind: Kind, own: Sequence[FinishedGate]) -> list[CheckResult]:
    """Check the gates with a seeded loss."""
    red = sum(found.outcome == gates.RED for found in own)
    name = kind.title()
    if kind.loss <= LIMIT:
        containing = sum(found.contains(1 - kind.loss) for found in own)
        required = f"{percent(AT_LIMIT)} of intervals contain it"
        passed = containing >= AT_LIMIT * len(own)
        return [
            CheckResult(f"{name}, interval", with_interval(containing, len(own)), required, passed),
            _reported(f"{name}, red", red, len(own), "-"),
            _time(name, own),
        ]
    least = f"at least {percent(FOUND)}"
    return [
        CheckResult(f"{name}, red", with_interval(red, len(own)), least, red >= FOUND * len(own)),
        _time(name, own),
    ]


def _time(name: str, own: Sequence[FinishedGate]) -> CheckResult:
    longest = max(found.seconds for found in own)
    return CheckResult(f"{name}, time", f"{longest:.0f} s", f"{BUDGET:.0f} s", longest <= BUDGET)


def _reported(name: str, hits: int, trials: int, required: str) -> CheckResult:
    return CheckResult(name, with_interval(hits, trials), required, None, is_required=False)


def with_interval(hits: int, trials: int) -> str:
    """Return a count, and its share as an exact binomial 95 % interval."""
    low, high = intervals.binomial_interval(hits, trials)
    return f"{hits} of {trials} ({percent(low, 1)} to {percent(high, 1)})"
