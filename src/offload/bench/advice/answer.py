"""The answer: which strategy and size to use, from the records of the candidates."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from offload.bench.advice import certainty, latency
from offload.bench.advice.certainty import ACCEPTED_LOSS, PREDICTED, SURE
from offload.bench.advice.latency import Percentile
from offload.bench.advice.prediction.model import Prediction
from offload.bench.advice.question_file import Question
from offload.bench.advice.strategies import STRATEGIES, size_of
from offload.bench.analysis import comparison, machine_speed, rate, weighting
from offload.bench.analysis.comparison import Comparison
from offload.bench.planning.plan import Plan
from offload.bench.records.record import Record
from offload.bench.records.run_records import RunRecords
from offload.bench.stats.estimate import Estimate
from offload.bench.stats.paired_test import SAME, TINY
from offload.flags import Flag, Problem
from offload.suites import Case


@dataclass(frozen=True)
class Option:
    """A candidate: its prediction, its measured rate, and its comparison with the chosen one.

    The ratio of the comparison is its rate over that of the chosen one. `compared` is None for the
    chosen one. `failed` is the share of its requests that failed; its rate counts the others only.
    `percentiles` are its response times at the loads in `latency.LOADS`, and `memories_mib` is its
    memory in each load, in their order; both are empty if they were not measured. `missed_p99` is
    the percentile at the lowest load if it misses the required p99.
    """

    case: Case
    prediction: Prediction
    rate: Estimate
    compared: Comparison | None = None
    failed: float = 0.0
    percentiles: tuple[Percentile, ...] = ()
    memories_mib: tuple[float, ...] = ()
    missed_p99: Percentile | None = None

    @property
    def strategy(self) -> str:
        """The strategy: loop, threads, processes, pipes or prefork."""
        return self.prediction.strategy

    @property
    def workers(self) -> int:
        """The number of workers, or of processes of prefork; 1 for the loop."""
        return self.prediction.workers

    @property
    def memory_mib(self) -> float | None:
        """The highest memory in any load; None if it was not measured."""
        return max(self.memories_mib, default=None)


@dataclass(frozen=True)
class Failure:
    """A candidate without a rate, and the problem of its server."""

    prediction: Prediction
    problem: Problem


@dataclass(frozen=True)
class Answer:
    """The chosen candidate and the others, the highest rate first.

    `tie` lists the chosen strategy, and those that are at most 3 % slower than the best one and not
    certainly slower (see `certainty.is_tie`).
    `is_measured` is False if the answer is only a prediction: then rates are unknown, and the
    memory is predicted. `failures` lists the candidates that could not be measured, and `problems`
    the problems of all loads. `disturbed` is the reason why the measurement is invalid.
    `is_interrupted` is True if the user interrupted the measurement.
    """

    question: Question
    chosen: Option
    others: tuple[Option, ...]
    tie: tuple[str, ...]
    is_measured: bool = True
    disturbed: Flag | None = None
    failures: tuple[Failure, ...] = ()
    problems: tuple[Problem, ...] = ()
    is_interrupted: bool = False

    @property
    def next_best(self) -> Option | None:
        """The fastest other candidate of another strategy; None without one."""
        own = self.chosen.strategy
        return next((each for each in self.others if each.strategy != own), None)

    @property
    def sure(self) -> str:
        """How sure the answer is: SURE, LIKELY, TIE, PREDICTED or DISTURBED."""
        if not self.is_measured:
            return PREDICTED
        if self.others and not self.rivals and self.disturbed is None:
            return SURE  # the strategies of all others miss the required p99
        compared = (option.compared for option in self.rivals)
        return certainty.of_answer(self.tie, compared, self.disturbed)

    @property
    def rivals(self) -> list[Option]:
        """The other candidates, without the strategies that miss a p99 which the chosen one meets.

        The response times of other sizes of these strategies are not measured.
        """
        if self.chosen.missed_p99 is not None:
            return [*self.others]
        missed = {each.strategy for each in self.others if each.missed_p99 is not None}
        return [each for each in self.others if each.strategy not in missed]


def predict(question: Question, case: Case) -> Answer:
    """Return the answer from the probe alone."""
    unknown = Estimate(None, None, None, 0, None, False)
    ranking = question.model.ranking()
    options = [Option(case, each, unknown) for each in ranking]
    best = [each for each in options if certainty.is_near(each.prediction.rate / ranking[0].rate)]
    chosen = min(best, key=lambda each: _preference(each.prediction))
    others = tuple(each for each in options if each is not chosen)
    return Answer(
        question,
        chosen,
        others,
        tuple(each.strategy for each in best),
        is_measured=False,
    )


def evaluate(question: Question, planned: Plan, records: Sequence[Record]) -> Answer:
    """Choose among the measured candidates or, if there are none, by the prediction.

    Measured ratios of rates are weighted with the predicted ones. A candidate that failed in its
    last rounds is not chosen, whatever its rate was before. If the best one misses the required
    p99, the fastest one that meets it is chosen, if there is one.
    """
    run = RunRecords(records)
    question = replace(question, python_s=machine_speed.mean_python_s(records))
    windows = {place: run.at(place).windows() for place in range(len(planned.cases))}
    options: dict[int, Option] = {}
    for place, case in enumerate(planned.cases):
        estimate = rate.of_windows(windows[place])
        if estimate.value is None or rate.is_hopeless(windows[place]):
            continue
        prediction = question.model.predict(*size_of(case))
        failed = rate.failed_share(run.at(place).records)
        loads = run.at(place).long_loads()
        percentiles, memories = latency.percentiles(loads), latency.memories_mib(loads)
        missed = _missed_p99(question.p99_s, percentiles)
        options[place] = Option(
            case, prediction, estimate, None, failed, tuple(percentiles), memories, missed
        )
    failures = tuple(_failures(question, planned, records, options))
    problems = tuple(dict.fromkeys(r.problem for r in records if r.problem))
    if not options:
        predicted = predict(question, planned.cases[0])
        return replace(predicted, failures=failures, problems=problems)
    tied = _find_ties(_one_per_strategy(options, windows), windows)
    chosen = min(tied, key=lambda place: _preference(options[place].prediction))
    by_rate = sorted(options, key=lambda place: -(options[place].rate.value or 0.0))
    if options[chosen].missed_p99 is not None:
        known = [place for place in by_rate if options[place].percentiles]
        meets = [place for place in known if options[place].missed_p99 is None]
        if meets:
            chosen, tied = meets[0], meets[:1]
    if options[chosen].missed_p99 is None:
        tied = [place for place in tied if options[place].missed_p99 is None]
    others = tuple(
        replace(options[place], compared=comparison.compare(windows[chosen], windows[place]))
        for place in by_rate
        if place != chosen
    )
    return Answer(
        question,
        options[chosen],
        others,
        tuple(dict.fromkeys(options[place].strategy for place in tied)),
        disturbed=certainty.find_disturbance(
            (option.compared for option in others), windows[chosen]
        ),
        failures=failures,
        problems=problems,
    )


def _missed_p99(limit_s: float | None, found: Sequence[Percentile]) -> Percentile | None:
    """Return the percentile at the lowest load if it misses the limit; else None.

    It also misses it if the server failed or no request had a response.
    """
    lowest = next(iter(found), None)
    return None if limit_s is None or lowest is None or lowest.is_within(limit_s) else lowest


def _failures(
    question: Question, planned: Plan, records: Sequence[Record], measured: Collection[int]
) -> Iterator[Failure]:
    """Yield the candidates without a rate, each with its last problem."""
    problems = {record.trial.place: record.problem for record in records if record.problem}
    for place, case in enumerate(planned.cases):
        if place not in measured and (problem := problems.get(place)) is not None:
            yield Failure(question.model.predict(*size_of(case)), problem)


def _one_per_strategy(
    options: Mapping[int, Option], windows: Mapping[int, Sequence[Record]]
) -> dict[int, Option]:
    """Return one size of each strategy that was measured in the last round.

    It is the size that the model prefers. A size that is faster by more than ACCEPTED_LOSS, by its
    weighted ratio, replaces it. A smaller one replaces it if it is faster at all, or as fast. The
    size with the highest measured rate would be the fastest partly by chance: a strategy with
    several sizes would seem to be faster than one with a single size.
    """
    last = max(windows[place][-1].trial.round or 0 for place in options)
    current = [place for place in options if windows[place][-1].trial.round == last]
    found: dict[str, int] = {}
    for place in current:  # the preferred size of each strategy is first
        option = options[place]
        known = found.setdefault(option.strategy, place)
        verdict = comparison.compare(windows[known], windows[place]).verdict
        ratio = _weighted_ratio(options, windows, known, place, weighting.SIZE_SD)
        is_smaller = option.workers < options[known].workers
        is_as_fast = ratio > 1 or verdict.outcome in (SAME, TINY)
        if ratio > 1 + ACCEPTED_LOSS or (is_smaller and is_as_fast):
            found[option.strategy] = place
    return {place: options[place] for place in found.values()}


def _find_ties(options: Mapping[int, Option], windows: Mapping[int, Sequence[Record]]) -> list[int]:
    """Return the places of the best candidate and of those that may be as fast.

    Rates are compared by their weighted ratio: with few rounds on a noisy machine, the fastest of
    similar candidates may be fastest by chance.
    """
    fastest = max(options, key=lambda place: options[place].rate.value or 0.0)
    ratios = {place: _weighted_ratio(options, windows, fastest, place) for place in options}
    best = max(options, key=lambda place: ratios[place])
    found = [best]
    for place in options:
        verdict = comparison.compare(windows[best], windows[place]).verdict
        if place != best and certainty.is_tie(verdict, ratios[place] / ratios[best]):
            found.append(place)
    return found


def _weighted_ratio(
    options: Mapping[int, Option],
    windows: Mapping[int, Sequence[Record]],
    one: int,
    other: int,
    model_sd: float = weighting.MODEL_SD,
) -> float:
    """Return the weighted ratio of the rate of `other` to that of `one`; 0 if it is unknown."""
    if one == other:
        return 1.0
    predicted = options[other].prediction.rate / options[one].prediction.rate
    return weighting.ratio_of_windows(windows[one], windows[other], predicted, model_sd) or 0.0


def _preference(prediction: Prediction) -> int:
    """Return a sort key that prefers simple strategies."""
    return STRATEGIES.index(prediction.strategy)
