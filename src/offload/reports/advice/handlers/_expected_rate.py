"""The rate of a printed program whose framework needs more CPU per request than Tornado.

The rates of an answer are measured with Tornado.
"""

from __future__ import annotations

from offload.bench.advice import model
from offload.bench.advice.answer import Answer

TORNADO_CPU_S = 0.29e-3  # CPU time of an empty request; docs/advice.rst, Handlers, has all of them
PYTHON_S = 0.02  # duration of the fixed work (see `machine_speed`) on the machine of these times
PER_LOOP = (model.SERVER, model.TASK, model.GIL)  # limits of one process


def expected_rate(answer: Answer, cpu_s: float) -> float:
    """Return the rate in requests/s; `cpu_s` is the CPU time of an empty request in s.

    If the CPU limits the rate, each request takes its additional CPU time / cores longer (the
    asymptotic bound of operational analysis, as in the model), and if one process limits it, the
    additional time itself. Other limits do not change.
    """
    rate = answer.chosen.rate.value or answer.chosen.prediction.rate
    python_s = answer.question.python_s or answer.question.probe.python_s or PYTHON_S
    more_s = max(0.0, cpu_s - TORNADO_CPU_S) * python_s / PYTHON_S
    limit = answer.chosen.prediction.limit
    if limit == model.CPU:
        return 1 / (1 / rate + more_s / answer.question.probe.cores)
    return 1 / (1 / rate + more_s) if limit in PER_LOOP else rate
