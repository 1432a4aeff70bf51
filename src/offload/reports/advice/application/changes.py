"""The prediction for an application as text, and what would change its answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from offload.bench.advice.application import sizes
from offload.bench.advice.application.answer import ApplicationAnswer
from offload.bench.advice.application.prediction import Limit, OneProcess
from offload.bench.analysis.application_causes import NOT_FIXABLE, Kind
from offload.registry import catalog
from offload.reports.advice import prediction as function_prediction
from offload.reports.advice.application.names import option_name, size_name
from offload.reports.tables.formats import number

LEAST_GAIN = 1.1  # predicted rate over the measured one from which a change is reported
REASONS = {
    Limit.CPU: "the CPU of {cores}",
    Limit.USERS: "the number of users",
    Limit.WORKERS: "the number of workers",
}


def prediction(answer: ApplicationAnswer) -> Iterator[str]:
    """Yield the difference between the predicted and the measured rate of the chosen server."""
    chosen, probe = answer.chosen, answer.probe
    if probe is None or chosen.prediction is None or chosen.rate.value is None:
        return
    predicted, measured = chosen.prediction.rate, chosen.rate.value
    yield function_prediction.compared(option_name(chosen), predicted, measured)
    alone = f"One process alone reached {number(probe.rate)}/s"
    cpu = "" if probe.cpu_s is None else f", with {probe.cpu_s * 1000:.3g} ms of CPU per request"
    yield f"{alone}{cpu}."


def sentences(answer: ApplicationAnswer) -> Iterator[str]:
    """Yield which changes of the application, the machine or the load would change the answer."""
    probe, measured = answer.probe, answer.chosen.rate.value
    if probe is None or measured is None:
        return
    kinds = {cause.kind for cause in answer.remaining or answer.causes}
    if kinds - NOT_FIXABLE:
        yield from _without_cause(answer, probe, measured)
    if Kind.GIL_SATURATED in kinds:
        yield "In a free-threaded Python (see fab pythons), one process can use all cores."
    yield from _on_more_cores(answer, probe, measured)
    if answer.chosen.prediction is not None and answer.chosen.prediction.limit is Limit.USERS:
        yield "The rate increases with the number of users: repeat with users= if it is higher."


def _without_cause(answer: ApplicationAnswer, probe: OneProcess, measured: float) -> Iterator[str]:
    """Yield the highest possible rate of the chosen size if the causes were fixed."""
    chosen, question = answer.chosen, answer.question
    best = probe.without_process_limit(
        chosen.case.server, chosen.size, question.users, question.cores
    )
    if best is not None and best.rate >= LEAST_GAIN * measured:
        what = "this cause" if len(answer.causes) < 2 else "these causes"
        cores = f"{question.cores} core{'' if question.cores == 1 else 's'}"
        limit = REASONS[best.limit].format(cores=cores)
        yield f"Without {what}, at most {number(best.rate)}/s: then {limit} is the limit."


def _on_more_cores(answer: ApplicationAnswer, probe: OneProcess, measured: float) -> Iterator[str]:
    """Yield the predicted rate with twice the cores and processes, if the CPU is the limit."""
    chosen, question = answer.chosen, answer.question
    if chosen.prediction is None or chosen.prediction.limit is not Limit.CPU:
        return
    server, size, cores = chosen.case.server, chosen.size, 2 * question.cores
    if sizes.has_processes(catalog.find_server(server)):
        size = replace(size, processes=2 * size.processes)
    rate = probe.predict(server, size, question.users, cores).rate
    if rate >= LEAST_GAIN * measured:
        yield f"On {cores} cores with {size_name(size)}: {number(rate)}/s by the prediction."
