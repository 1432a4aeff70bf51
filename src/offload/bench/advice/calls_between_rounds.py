"""Call the task between the rounds of a measurement, to predict rates at the speed of that time.

On a shared machine the CPU time of the same call changes by half within seconds. The probe takes
10 s, the rounds a minute. So a prediction beside measured rates uses the CPU time of calls in the
same minute. These calls are direct, as in the probe: no figure of a server is used.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from offload.bench.advice import answer, probe_measurement
from offload.bench.advice.answer import Question
from offload.bench.target.needed_upstream import hold_for
from offload.errors import UserError
from offload.suites import Case

SHARE = 0.15  # maximum share of the time that is spent on these calls; a guess


class CallsBetweenRounds:
    """Measures calls between rounds, and saves a question with their CPU times in `folder`."""

    def __init__(self, question: Question, case: Case, folder: Path) -> None:
        self.question = question
        self._case, self._folder = case, folder
        self._started, self._spent_s = time.monotonic(), 0.0

    def measure(self) -> None:
        """Measure calls unless they have taken too much of the time so far."""
        began = time.monotonic()
        if self._spent_s > SHARE * (began - self._started):
            return
        with suppress(UserError), hold_for(self._case) as upstream:
            found_s = probe_measurement.busy_cpu_s(self._case, upstream)
            if found_s > 0:
                known = (*self.question.busy_cpu_s, found_s)
                self.question = replace(self.question, busy_cpu_s=known)
                answer.save(self.question, self._folder)
        self._spent_s += time.monotonic() - began
