"""The rate of a printed program whose framework needs more CPU per request than Tornado.

The rates of an answer are measured with Tornado.
"""

from __future__ import annotations

from dataclasses import replace

from offload.bench.advice.answer import Answer
from offload.bench.advice.inputs.overhead import Overhead

TORNADO_CPU_S = 0.29e-3  # CPU time of an empty request; docs/how_to/handler.rst has all
PYTHON_S = 0.02  # duration of the fixed work (see `machine_speed`) on the machine of these times


def expected_rate(answer: Answer, cpu_s: float) -> float:
    """Return the rate in requests/s; `cpu_s` is the CPU time of an empty request in s.

    It is the rate of the answer, multiplied by the predicted rate with the additional CPU time, and
    divided by the predicted rate without it.
    """
    question, prediction = answer.question, answer.chosen.prediction
    rate = answer.chosen.rate.value or prediction.rate
    python_s = question.python_s or question.probe.python_s or PYTHON_S
    more_s = max(0.0, cpu_s - TORNADO_CPU_S) * python_s / PYTHON_S
    slower = replace(question.model, additional=Overhead(more_s, more_s))
    size = prediction.strategy, prediction.workers
    return rate * slower.predict(*size).rate / question.model.predict(*size).rate
