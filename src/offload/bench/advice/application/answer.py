"""The answer for an application: the measured options, and which one to use."""

from __future__ import annotations

from dataclasses import dataclass

from offload.bench.advice import certainty
from offload.bench.advice.application import sizes
from offload.bench.advice.application.prediction import OneProcess, Prediction
from offload.bench.advice.application.question_file import Question
from offload.bench.advice.application.sizes import Size
from offload.bench.advice.latency import Percentile
from offload.bench.analysis.application_causes import Cause
from offload.bench.analysis.comparison import Comparison
from offload.bench.stats.estimate import Estimate
from offload.flags import Flag, Problem
from offload.suites import Case

PROBE_BLOCK = 0  # measures one server with one process alone; later blocks compare servers


@dataclass(frozen=True)
class Option:
    """A measured server and size: its rate, its memory, and its comparison with the chosen one.

    `worker_mib` is the memory (PSS) of its largest process. `share` is its rate over that of the
    chosen one. `compared` is None for a server that was not measured in the same rounds as the
    chosen one: then `share` is derived from the ratios of both to a third server. `failed` is the
    share of its requests that failed: its rate is that of the others. `prediction` is None if there
    is none: see `OneProcess.predict`.
    """

    case: Case
    rate: Estimate
    worker_mib: float | None
    share: float | None = None
    compared: Comparison | None = None
    failed: float = 0.0
    prediction: Prediction | None = None

    @property
    def size(self) -> Size:
        """Its processes and threads."""
        return sizes.size_of(self.case)

    @property
    def may_be_faster(self) -> bool:
        """Whether it may be faster than the chosen one; if not compared, whether it is as fast."""
        if self.compared is None:
            return certainty.is_near(self.share)
        return certainty.is_open(self.compared)

    @property
    def memory_mib(self) -> float | None:
        """An estimate of the memory of all its processes: their number times the largest one."""
        return None if self.worker_mib is None else self.worker_mib * self.size.processes


@dataclass(frozen=True)
class WorkerMemory:
    """The memory of the largest process in MiB: its PSS, and the part that it does not share."""

    pss_mib: float | None
    private_mib: float | None


@dataclass(frozen=True)
class ApplicationAnswer:
    """The chosen server and the others, the highest rate first.

    `tie` lists the chosen server, and those that are at most 3 % slower than the best one and not
    certainly slower. `causes` were found for one process under all users, and `remaining` for
    the chosen size. `probe` has the figures of this process; None if it has no rate, or was
    disturbed. `percentiles` are measured at the loads in `latency.LOADS`. `memory_mib` is the
    highest memory of all processes under these loads, `worker` that of one process, and
    `preloaded` that of one process with the application imported before the fork; None if the
    server cannot preload, or if the memory is unknown. `disturbed` is the reason why the
    measurement is invalid, and `problems` are those of all loads. `is_interrupted` is True if
    the user interrupted the measurement.
    """

    question: Question
    chosen: Option
    others: tuple[Option, ...]
    tie: tuple[str, ...]
    causes: tuple[Cause, ...]
    remaining: tuple[Cause, ...]
    probe: OneProcess | None
    percentiles: tuple[Percentile, ...] = ()
    memory_mib: float | None = None
    worker: WorkerMemory | None = None
    preloaded: WorkerMemory | None = None
    disturbed: Flag | None = None
    problems: tuple[Problem, ...] = ()
    is_interrupted: bool = False

    @property
    def sure(self) -> str:
        """How sure the answer is: SURE, LIKELY, TIE or DISTURBED."""
        compared = (option.compared for option in self.others)
        found = certainty.of_answer(self.tie, compared, self.disturbed)
        is_open = any(option.may_be_faster for option in self.others)
        return certainty.LIKELY if found == certainty.SURE and is_open else found

    @property
    def larger(self) -> list[Option]:
        """The measured options with the chosen server and more workers."""
        chosen = self.chosen
        return [
            option
            for option in self.others
            if option.case.server == chosen.case.server and option.size.total > chosen.size.total
        ]

    @property
    def gains_nothing_beyond(self) -> bool:
        """Whether a larger size of the chosen server was measured, and none may be faster."""
        return bool(self.larger) and not any(option.may_be_faster for option in self.larger)
