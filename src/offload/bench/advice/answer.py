"""The answer: which strategy and size to use, from the records of the candidates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from offload import files
from offload.bench.advice import latency
from offload.bench.advice.latency import Percentile
from offload.bench.advice.model import Model, Prediction
from offload.bench.advice.overhead import Overhead
from offload.bench.advice.probe import Probe
from offload.bench.analysis import comparison, rate
from offload.bench.analysis.comparison import Comparison
from offload.bench.planning.plan import Plan
from offload.bench.records import lines
from offload.bench.records.record import LONG, Record
from offload.bench.records.run_records import RunRecords
from offload.bench.stats.estimate import Estimate
from offload.bench.stats.paired_test import DISTURBED, FASTER, SLOWER, UNRESOLVED
from offload.errors import StorageError
from offload.flags import Flag, Problem
from offload.suites import Case

FILE = "advice.json"
SURE, LIKELY, TIE, PREDICTED = "sure", "likely", "tie", "predicted"  # or DISTURBED
WORSE = 0.03  # of the highest rate: a simpler strategy may be slower by so much, if not for certain
SIMPLE = ("loop", "threads", "processes", "pipes", "prefork")  # the simplest one first


@dataclass(frozen=True)
class Question:
    """What the candidates were derived from, saved beside their records.

    The constraints are the memory of the server in MiB and the 99th percentile of response times in
    s; None is no constraint.
    """

    probe: Probe
    overheads: Mapping[str, Overhead]
    users: int
    memory_mib: float | None = None
    p99_s: float | None = None

    @property
    def model(self) -> Model:
        """The model of this probe."""
        return Model(self.probe, self.overheads, self.users, self.memory_mib)


@dataclass(frozen=True)
class Option:
    """A candidate: its prediction, its measured rate, and its comparison with the chosen one.

    The ratio is its rate over that of the chosen one; None for the chosen one.
    """

    case: Case
    prediction: Prediction
    rate: Estimate
    compared: Comparison | None = None

    @property
    def strategy(self) -> str:
        """The strategy: loop, threads, processes, pipes or prefork."""
        return self.prediction.strategy

    @property
    def workers(self) -> int:
        """The number of workers, or of processes of prefork; 1 for the loop."""
        return self.prediction.workers


@dataclass(frozen=True)
class Answer:
    """The chosen candidate and the others, the highest rate first.

    `tie` are the strategies whose rate does not differ from that of the chosen one for certain.
    `percentiles` are the 95th percentiles of response times at the shares of the rate that
    `latency.LOADS` lists. `is_measured` is False if the answer is only a prediction: then `rate`
    is unknown. `disturbed` is the reason why the measurement is invalid. `is_interrupted` tells
    that the user ended it early.
    """

    question: Question
    chosen: Option
    others: tuple[Option, ...]
    tie: tuple[str, ...]
    percentiles: tuple[Percentile, ...] = ()
    memory_mib: float | None = None
    is_measured: bool = True
    disturbed: Flag | None = None
    problems: tuple[Problem, ...] = ()
    is_interrupted: bool = False

    @property
    def sure(self) -> str:
        """How sure the answer is: SURE, LIKELY, TIE, PREDICTED or DISTURBED."""
        if not self.is_measured:
            return PREDICTED
        if self.disturbed is not None:
            return DISTURBED
        if len(self.tie) > 1:
            return TIE
        outcomes = {o.compared.verdict.outcome for o in self.others if o.compared is not None}
        return LIKELY if outcomes & {UNRESOLVED, FASTER} else SURE


def save(question: Question, folder: Path) -> None:
    """Save a question in its run's folder."""
    values = json.dumps(asdict(question), indent=1)
    files.replace(folder / FILE, values.encode() + b"\n")


def load(folder: Path) -> Question:
    """Read the question of a run; raise StorageError."""
    path = folder / FILE
    try:
        values = json.loads(path.read_bytes())
        probe = lines.built(Probe, values["probe"], "probe")
        found = {key: Overhead(**value) for key, value in values["overheads"].items()}
        limits = (values.get(name) for name in ("memory_mib", "p99_s"))
        return Question(probe, found, int(values["users"]), *limits)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", "repeat the advice") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StorageError(f"{path} is not of this version: {error}", "repeat it") from error


def predicted(question: Question, case: Case) -> Answer:
    """Return the answer from the probe alone."""
    unknown = Estimate(None, None, None, 0, None, False)
    ranking = question.model.ranking()
    options = [Option(case, each, unknown) for each in ranking]
    best = [each for each in options if each.prediction.rate >= (1 - WORSE) * ranking[0].rate]
    chosen = min(best, key=lambda each: SIMPLE.index(each.strategy))
    others = tuple(each for each in options if each is not chosen)
    return Answer(
        question,
        chosen,
        others,
        tuple(each.strategy for each in best),
        memory_mib=chosen.prediction.memory_mib,
        is_measured=False,
    )


def evaluate(
    question: Question,
    planned: Plan,
    records: Sequence[Record],
) -> Answer:
    """Choose among the candidates that were measured; without any, by the prediction."""
    run = RunRecords(records)
    windows = {place: run.at(place).windows() for place in range(len(planned.cases))}
    rates = {place: rate.of_windows(found) for place, found in windows.items()}
    known = [place for place, estimate in rates.items() if estimate.value is not None]
    problems = tuple(dict.fromkeys(r.problem for r in records if r.problem))
    if not known:
        return predicted(question, planned.cases[0])
    predictions = {place: _prediction(question, planned.cases[place]) for place in known}
    fastest = max(known, key=lambda place: rates[place].value or 0.0)
    to_fastest = {
        place: comparison.compare(windows[fastest], windows[place])
        for place in known
        if place != fastest
    }
    tied = [fastest, *(place for place, found in to_fastest.items() if _is_tie(found))]
    chosen = min(tied, key=lambda place: _preference(predictions[place]))
    others = [
        Option(
            planned.cases[place],
            predictions[place],
            rates[place],
            comparison.compare(windows[chosen], windows[place]),
        )
        for place in sorted(known, key=lambda place: -(rates[place].value or 0.0))
        if place != chosen
    ]
    loads = [r for r in run.at(chosen).last_attempts() if r.trial.kind == LONG]
    disturbances = [
        each.compared.disturbed for each in others if each.compared and each.compared.disturbed
    ]
    memory = next((m for r in loads[::-1] if (m := r.resources.memory.pss_mib)), None)
    names = dict.fromkeys(predictions[place].strategy for place in tied)
    option = Option(planned.cases[chosen], predictions[chosen], rates[chosen])
    return Answer(
        question,
        option,
        tuple(others),
        tuple(names),
        tuple(latency.percentile(record) for record in loads),
        memory,
        disturbed=disturbances[0] if disturbances else None,
        problems=problems,
    )


def _prediction(question: Question, case: Case) -> Prediction:
    size = case.settings.get("workers", case.settings.get("processes", 1))
    return question.model.predict(case.server, int(str(size)))


def _is_tie(found: Comparison) -> bool:
    """Whether a candidate may be as fast as the fastest one."""
    outcome, ratio = found.verdict.outcome, found.verdict.ratio
    if outcome in (FASTER, DISTURBED):
        return True
    return outcome != SLOWER and ratio is not None and ratio >= 1 - WORSE


def _preference(prediction: Prediction) -> tuple[int, int]:
    """Prefer few processes, which cost memory, then a simple strategy, then few workers."""
    return SIMPLE.index(prediction.strategy), prediction.workers
