"""Call the task between the rounds of a measurement, to predict rates at the speed of that time.

On a shared machine the CPU time of the same call changes by half within seconds. The probe takes
10 s, the rounds a minute. So a prediction beside measured rates uses the CPU time of calls in the
same minute. These calls are direct, as in the probe: no figure of a server is used.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path

from offload.bench.advice import question_file
from offload.bench.advice.inputs import probe_measurement
from offload.bench.advice.question_file import Question
from offload.bench.target.needed_upstream import hold_for
from offload.errors import UserError
from offload.suites import Case

SLOWEST_START_S = 2.0  # time of an import and a first call, above which there are no calls; a guess
SHARE = 0.1  # maximum share of the time that is spent on these calls; a guess


class CallsBetweenRounds:
    """Measures calls between rounds, and saves a question with their CPU times in `folder`.

    Use it as a context manager: the processes that call the task wait between two measurements. If
    their start would take longer than SLOWEST_START_S, nothing is measured.
    """

    def __init__(self, question: Question, case: Case, folder: Path) -> None:
        self.question = question
        self._case, self._folder = case, folder
        self._started, self._spent_s = time.monotonic(), 0.0
        self._stack = ExitStack()
        self._times: Iterator[float] = iter(())

    def __enter__(self) -> CallsBetweenRounds:
        process = self.question.probe.process
        if process.import_s + process.first_s > SLOWEST_START_S:
            return self
        with suppress(UserError):  # without these calls, the figures of the probe are used
            upstream = self._stack.enter_context(hold_for(self._case))
            processes = self.question.probe.busy_processes
            times = probe_measurement.measure_busy_cpu_s(self._case, upstream, processes)
            self._times = self._stack.enter_context(closing(times))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def measure(self) -> None:
        """Measure calls unless they have taken too much of the time so far."""
        began = time.monotonic()
        if self._spent_s > SHARE * (began - self._started):
            return
        with suppress(UserError):
            found_s = next(self._times, 0.0)
            if found_s > 0:
                known = (*self.question.busy_cpu_s, found_s)
                self.question = replace(self.question, busy_cpu_s=known)
                question_file.save(self.question, self._folder)
        self._spent_s += time.monotonic() - began
