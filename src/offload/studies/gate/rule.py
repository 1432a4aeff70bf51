"""When a gate ends, and its verdicts: who lost more than a limit, and whether a condition holds.

If the logarithms of rates have a normal distribution, a gate is red by chance in at most 1 % of
runs:
GATE_ERROR is divided among all analyses of a run, and then among its cases, their failures
and its figures: by Holm's method for cases and failures, equally for figures. A case stops early if
it has a verdict at the level of the early analyses, which is stricter. The reported verdict is
always that at the level of the last analysis. A gate is green by chance in at most 1 % of runs,
too: it is green only if every case is, so each case may use the whole of GATE_ERROR (an
intersection-union test: Berger 1982). A case with neither a significant loss nor a significant
absence of a loss is undecided.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from offload.engine import decisions, figures, intervals
from offload.engine.decisions import LOSS, NO_LOSS, UNDECIDED, LogRatio
from offload.engine.figures import P99, RATE, UNKNOWN_FIGURE, Measured, rate_of
from offload.engine.intervals import GATE
from offload.engine.plan import BlockState, Plan, Records, Round, StoppingRule
from offload.engine.record import Record, RunRecords, average_by_round, select_for_rate
from offload.errors import TOO_SLOW, Flag
from offload.suites import Case, _case

FAILS = "fails"  # the case works in the baseline, but not now
DISTURBED = decisions.DISTURBED
NO_BASELINE = "no baseline"  # the baseline has no rate of the case
BY_INTERVAL = (LOSS, NO_LOSS, UNDECIDED)
DOUBTFUL = 0.25  # p value of more failures, below which "no loss" is not certain; a guess
CLEARLY_SLOWER = 2.0  # ratio of single requests above which a timeout is not noise; a guess
Windows = Sequence[Record]


@dataclass(frozen=True)
class GateTerms:
    """The requirements of a gate: no case may lose more than `loss`, a share of its rate.

    `against` is the user's name of the other side, and `differences` are the differences between
    both sides. With `min_rate` (requests/s) or `max_p99_s` there is also a condition: each case
    must have at least this rate now, and at most this 99th percentile.
    """

    loss: float
    against: str = ""
    differences: tuple[str, ...] = ()
    min_rate: float | None = None
    max_p99_s: float | None = None

    @property
    def limits(self) -> Mapping[str, float]:
        """The limits of the condition by the name of their figure; empty without a condition."""
        limits = {RATE: self.min_rate, P99: self.max_p99_s}
        return {name: limit for name, limit in limits.items() if limit is not None}

    @property
    def condition(self) -> str:
        """The condition as options of the command."""
        rate = None if self.min_rate is None else f"min_rate={self.min_rate:.9g}"
        p99 = None if self.max_p99_s is None else f"max_p99={1000 * self.max_p99_s:.9g}ms"
        return " ".join(each for each in (rate, p99) if each is not None)


@dataclass(frozen=True)
class Sides:
    """The windows of a case in its `baseline` and `now`."""

    baseline: Windows
    now: Windows


@dataclass(frozen=True)
class Levels:
    """The error rates of a case's verdicts: green, red by its rate, and red by failures."""

    green: float
    loss: float
    failures: float


@dataclass(frozen=True)
class CaseVerdict:
    """The verdict on one case. `change` is the rate now over that of the baseline.

    `outcome` is LOSS, FAILS, NO_LOSS, UNDECIDED, DISTURBED or NO_BASELINE. `reason` explains an
    outcome that does not follow from the interval. `more_rounds` estimates how many further rounds
    decide an undecided case; None if unknown.
    """

    outcome: str
    change: Measured = UNKNOWN_FIGURE
    rounds: int = 0
    more_rounds: int | None = None
    reason: Flag | None = None


@dataclass(frozen=True)
class ConditionVerdict:
    """Whether each case fulfils a condition (None: undecided), and the figures in it."""

    text: str
    cases: tuple[bool | None, ...]
    figures: Mapping[str, Measured] = field(default_factory=dict)

    @property
    def holds(self) -> bool | None:
        """Whether the condition holds for all cases; None if that is undecided."""
        return _all(self.cases)


@dataclass(frozen=True, kw_only=True)
class Gate(StoppingRule):
    """Each pair is the baseline and the same case now; a block ends when its case is decided.

    If there is a condition, its verdict on this case must be final, too. A case that never has a
    rate on one side needs no further round.
    """

    gate: GateTerms

    @property
    def counts(self) -> tuple[int, ...]:
        return GATE.counts

    @property
    def has_short_rounds(self) -> bool:
        return True

    def case_indexes(self, plan: Plan, each: Round, records: Records) -> list[int]:
        """Return both indexes; alternate which side starts first, in case that has an effect."""
        case_indexes = [*plan.blocks[each.block].cases]
        return case_indexes if each.number % 2 else case_indexes[::-1]

    def is_finished(self, plan: Plan, states: Sequence[BlockState], number: int) -> bool:
        all_sides = [*map(sides_of, states)]
        sides, count = all_sides[number], len(states[number].rounds)
        if never_works(sides.baseline) or never_works(sides.now):
            return True
        if count == self.counts[-1]:
            return True
        family = len(plan.blocks) * (1 + len(self.gate.limits))
        if not is_decided(sides, self.gate.loss, family, count):
            return False
        early = GATE.early / 2
        found = judge_condition(self.gate, cases_now(plan), all_sides, early)
        return found is None or found.holds is False or found.cases[number] is not None

    def check(self, plan: Plan) -> None:
        if not 0 < self.gate.loss < 1:
            raise ValueError(f"the loss {self.gate.loss} of a gate must be between 0 and 1")
        if not plan.blocks or any(block.pairs != (block.cases,) for block in plan.blocks):
            raise ValueError("a gate compares two cases in each block")


RULE = Gate


def sides_of(state: BlockState) -> Sides:
    """Return the windows of the case of a block: those of its baseline, and those now."""
    own = RunRecords(state.records)
    return Sides(*(own.at(case_index).windows() for case_index in state.block.cases))


def cases_now(plan: Plan) -> tuple[Case, ...]:
    """Return the cases of a gate as they are now: the last one of each block."""
    return tuple(plan.cases[block.cases[-1]] for block in plan.blocks)


def judge_cases(
    cases: Sequence[Sides], margin: float, figure_count: int = 0, level: float = GATE.level
) -> list[CaseVerdict]:
    """Judge all cases of a gate whose sides were measured together in rounds.

    `level` is two-sided. `figure_count` is the number of figures of the condition, which are tested
    in addition to the cases.
    """
    found = [figures.log_ratio(each.baseline, each.now) for each in cases]
    return judge(cases, found, margin, level / 2, figure_count)


def judge(
    cases: Sequence[Sides],
    ratios: Sequence[LogRatio | None],
    margin: float,
    error: float,
    figure_count: int = 0,
    slack: float = 0.0,
) -> list[CaseVerdict]:
    """Judge the log ratios of all cases of a gate; `error` is the error rate of this analysis.

    `slack`, a share, is a possible error of each ratio in addition to its standard error. A case
    with failed requests may also be red because of them: this is one more hypothesis.
    """
    p_values = [
        1.0 if each is None else decisions.p_of_loss(each, margin, slack) for each in ratios
    ]
    failing = [index for index, sides in enumerate(cases) if _failed_rounds(sides.now)[0]]
    p_of_failures = [_p_of_failures(cases[index]) for index in failing]
    levels = decisions.holm_levels([*p_values, *p_of_failures, *[1.0] * figure_count], error)
    of_failures = dict(zip(failing, levels[len(cases) :], strict=False))
    return [
        _judge_case(
            sides, each, margin, Levels(error, levels[index], of_failures.get(index, 0.0)), slack
        )
        for index, (sides, each) in enumerate(zip(cases, ratios, strict=True))
    ]


def judge_condition(
    terms: GateTerms,
    cases: Sequence[Case],
    sides: Sequence[Sides],
    error: float = GATE.level / 2,
) -> ConditionVerdict | None:
    """Evaluate the condition of a gate from the windows of its cases; None without a condition.

    `error` is the error rate of this analysis.
    """
    if not terms.limits:
        return None
    failing = sum(_failed_rounds(own.now)[0] > 0 for own in sides)
    level = error / (len(cases) * (1 + len(terms.limits)) + failing)
    found = [{name: _measure(name, own.now, level) for name in terms.limits} for own in sides]
    verdicts = tuple(
        _all([_is_kept(name, terms.limits[name], value) for name, value in own.items()])
        for own in found
    )
    shown = {
        f"{name}({case})": value
        for case, own in zip(_case.unique_names(cases), found, strict=True)
        for name, value in own.items()
    }
    return ConditionVerdict(terms.condition, verdicts, shown)


def _measure(name: str, windows: Windows, level: float) -> Measured:
    """Return a figure of a case now; unknown if other processes disturbed its measurement.

    If the load tool limits a rate, the true rate may be higher, and the true times shorter.
    """
    if figures.find_disturbance(windows, ()) is not None:
        return UNKNOWN_FIGURE
    found = figures.measure_figure(name, windows, level)
    if figures.is_client_bound(windows):
        return replace(found, high=math.inf) if name == RATE else replace(found, low=0.0)
    return found


def _is_kept(name: str, limit: float, found: Measured) -> bool | None:
    """Whether a rate is at least, or a time at most, the limit; None if its interval is open."""
    low, high = (limit, math.inf) if name == RATE else (-math.inf, limit)
    if low <= found.low and found.high <= high:
        return True
    return False if found.high < low or found.low > high else None


def _all(found: Sequence[bool | None]) -> bool | None:
    """Return False if any part is false; else None if any part is undecided."""
    return False if False in found else None if None in found else True


def is_decided(sides: Sides, margin: float, family: int, count: int) -> bool:
    """Whether a case of a gate needs no further round after `count` rounds.

    This is so at the last analysis, and at an earlier one if the case has a verdict at its stricter
    level. `family` is the number of cases and figures of the gate. A disturbed case needs further
    rounds, because the disturbance may be temporary.
    """
    if not GATE.is_analysis(count):
        return False
    if count == GATE.last:
        return True
    [verdict] = judge_cases([sides], margin, family - 1, GATE.early)
    if verdict.outcome == DISTURBED:
        return False
    is_bound = verdict.reason is not None and verdict.reason.kind == figures.CLIENT_BOUND
    return is_bound or verdict.outcome != UNDECIDED


def _judge_case(
    sides: Sides,
    found: LogRatio | None,
    margin: float,
    levels: Levels,
    slack: float,
) -> CaseVerdict:
    verdict = _by_interval(found, margin, levels, slack)
    if found is None:
        counts = [_failed_rounds(windows)[1] for windows in (sides.baseline, sides.now)]
        verdict = replace(verdict, rounds=min(counts))
    if (failure := _failure(sides, levels.failures)) is not None:
        outcome, reason = failure
        return replace(verdict, outcome=outcome, more_rounds=None, reason=reason)
    if (flag := figures.find_disturbance(sides.baseline, sides.now)) is not None:
        return replace(verdict, outcome=DISTURBED, more_rounds=None, reason=flag)
    if (doubt := _doubt(sides, verdict.outcome)) is not None:
        return replace(verdict, outcome=UNDECIDED, more_rounds=None, reason=doubt)
    return verdict


def _by_interval(
    found: LogRatio | None, margin: float, levels: Levels, slack: float
) -> CaseVerdict:
    """Return LOSS or NO_LOSS if the whole interval is on one side of the margin."""
    if found is None:
        return CaseVerdict(UNDECIDED, reason=Flag("rounds", "fewer than two rounds have a rate"))
    low, high = found.low(levels.green) / (1 + slack), found.high(levels.loss) * (1 + slack)
    outcome = decisions.classify_loss(low, high, margin)
    more = None
    if outcome == UNDECIDED and not slack:
        more = decisions.additional_values(found, margin, levels.loss)
    return CaseVerdict(outcome, Measured(found.ratio, low, high), found.count, more)


def _failure(sides: Sides, level: float) -> tuple[str, Flag] | None:
    """Return the outcome of a case without rates or with failures, and why; else None."""
    if not _has_rate(sides.baseline):
        return NO_BASELINE, _problem(sides.baseline)
    if never_works(sides.now) and not figures.is_hopeless(sides.baseline):
        return (UNDECIDED if _may_be_as_slow(sides) else FAILS), _problem(sides.now)
    if _failed_rounds(sides.now)[0] and _p_of_failures(sides) <= level:
        return FAILS, _failed(sides)
    if not _has_rate(sides.now):
        return UNDECIDED, _problem(sides.now)
    return None


def never_works(windows: Windows) -> bool:
    """Whether a case has never had a rate, in so many rounds that it is not measured again.

    A case that had a rate may have one again: it is judged by the number of its failures.
    """
    return figures.is_hopeless(windows) and not _has_rate(windows)


def _may_be_as_slow(sides: Sides) -> bool:
    """Whether a case exceeds the timeout by so little that its baseline may do so, too."""
    if not any(r.problem is not None and r.problem.kind == TOO_SLOW for r in sides.now):
        return False
    now, before = (
        [record.baseline.alone_s for record in own if record.baseline.alone_s is not None]
        for own in (sides.now, sides.baseline)
    )
    return not now or not before or min(now) < CLEARLY_SLOWER * max(before)


def _doubt(sides: Sides, outcome: str) -> Flag | None:
    """Return why the outcome of an interval is not valid, or None.

    If the load tool limits a rate, the rate is too low: a limited rate now makes a loss too large,
    and a limited baseline makes it too small. New failures also make "no loss" invalid.
    """
    limited = sides.now if outcome == LOSS else sides.baseline
    if outcome != UNDECIDED and figures.is_client_bound(limited):
        side = "now" if outcome == LOSS else "in the baseline"
        what = f"the load tool was the limit {side}, so the true rate is unknown"
        return Flag(figures.CLIENT_BOUND, what, "choose a case with a longer task")
    now, before = (_failed_rounds(own)[0] for own in (sides.now, sides.baseline))
    is_new = now and not before
    if outcome == NO_LOSS and (is_new or (now and _p_of_failures(sides) < DOUBTFUL)):
        return _failed(sides)
    return None


def _has_rate(windows: Windows) -> bool:
    return bool(average_by_round(select_for_rate(windows), rate_of))


def _problem(windows: Windows) -> Flag:
    """Return the reason why a case has no rate."""
    problems = [record.problem for record in windows if record.problem is not None]
    if not problems:
        return Flag("problem", "no request was completed" if windows else "it was not measured")
    return Flag("problem", problems[-1].message, problems[-1].remedy)


def _failed_rounds(windows: Windows) -> tuple[int, int]:
    """Return the number of rounds in which a case had failures, and the number of all rounds."""
    rounds: dict[object, bool] = {}
    for record in windows:
        which = (record.trial.run, record.trial.block, record.trial.round)
        failed = record.problem is not None or bool(record.result.failures)
        rounds[which] = rounds.get(which, False) or failed
    return sum(rounds.values()), len(rounds)


def _p_of_failures(sides: Sides) -> float:
    """Return the p value of the hypothesis that rounds fail as often as in the baseline.

    The test is an exact sign test.
    """
    now, before = _failed_rounds(sides.now), _failed_rounds(sides.baseline)
    share = now[1] / (now[1] + before[1])
    return intervals.beta_cdf(share, now[0], before[0] + 1)


def _failed(sides: Sides) -> Flag:
    now, before = _failed_rounds(sides.now), _failed_rounds(sides.baseline)
    what = f"requests failed in {now[0]} of {now[1]} rounds, and in {before[0]} of the baseline's"
    return Flag("failures", f"{what} {before[1]}", "see the flags of its records")
