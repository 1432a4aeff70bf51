"""The rate of a printed program whose framework needs more CPU per request than Tornado.

The rates of an answer are measured with Tornado.
"""

from __future__ import annotations

from dataclasses import replace

from offload.bench.advice.answer import Answer
from offload.bench.advice.inputs.overhead import Overhead

TORNADO_CPU_S = 0.29e-3  # CPU time of an empty request; docs/advice.rst, Handlers, has all of them
PYTHON_S = 0.02  # duration of the fixed work (see `machine_speed`) on the machine of these times


def expected_rate(answer: Answer, cpu_s: float) -> float:
    """Return the rate in requests/s; `cpu_s` is the CPU time of an empty request in s.

    It is the rate of the answer, multiplied by the ratio that the model predicts if the overhead of
    each request is longer by the additional CPU time.
    """
    chosen, question = answer.chosen.prediction, answer.question
    rate = answer.chosen.rate.value or chosen.rate
    python_s = question.python_s or question.probe.python_s or PYTHON_S
    more_s = max(0.0, cpu_s - TORNADO_CPU_S) * python_s / PYTHON_S
    longer = Overhead(more_s, more_s)
    model = question.model
    overheads = {name: each.increased(longer) for name, each in model.overheads.items()}
    slower = replace(model, overheads=overheads)
    size = chosen.strategy, chosen.workers
    return rate * slower.predict(*size).rate / model.predict(*size).rate
