"""The prediction for an application as text, and what would change its answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from offload.bench.advice.application import sizes
from offload.bench.advice.application.answer import ApplicationAnswer, Option
from offload.bench.advice.application.prediction import Limit, OneProcess
from offload.bench.advice.application.sizes import Size
from offload.bench.analysis.application_causes import NOT_FIXABLE, Kind
from offload.registry import catalog
from offload.reports.advice import prediction as function_prediction
from offload.reports.advice.application.names import option_name, size_name
from offload.reports.advice.names import cores_name, join_names
from offload.reports.tables.formats import number

LEAST_GAIN = 1.1  # predicted rate over the measured one from which a change is reported
NAMES = {
    Kind.GIL_IMPORT: "the import that enables the GIL",
    Kind.LOOP_BLOCKED: "the blocked event loop",
    Kind.THREAD_LIMIT: "the limit of anyio's threads",
    Kind.GIL_SATURATED: "the limit of the GIL",
    Kind.WAITS_ELSEWHERE: "the wait for that resource",
}
LIMITS = {
    Limit.CPU: "the CPU of {cores}",
    Limit.USERS: "the number of users",
    Limit.WORKERS: "the number of workers",
}


def prediction(answer: ApplicationAnswer) -> Iterator[str]:
    """Yield the difference between the predicted and the measured rate of the chosen server."""
    chosen, probe = answer.chosen, answer.probe
    if probe is None or chosen.prediction is None or not chosen.rate.value or not answer.others:
        return
    name, predicted = option_name(chosen), chosen.prediction.rate
    yield function_prediction.compare_with_measured(name, predicted, chosen.rate.value)
    yield f"It is calculated from one process of {probe.server}, with {number(probe.rate)}/s."


def sentences(answer: ApplicationAnswer) -> Iterator[str]:
    """Yield which changes of the application, the machine or the load would change the answer."""
    probe, chosen = answer.probe, answer.chosen
    if probe is None or not chosen.rate.value:
        return
    causes = [cause.kind for cause in answer.remaining or answer.causes]
    if fixable := [kind for kind in causes if kind not in NOT_FIXABLE]:
        yield from _without_causes(fixable, chosen, probe)
        yield from _without_gil(causes, chosen, probe)
    predicted = chosen.prediction
    if predicted is None or function_prediction.is_unreliable(predicted.rate, chosen.rate.value):
        return
    if predicted.limit is Limit.CPU:
        yield from _on_more_cores(answer, probe)
    if predicted.limit is Limit.USERS:
        yield "With more users the rate is higher: if you expect more, repeat with a larger users=."


def _without_causes(causes: Sequence[Kind], chosen: Option, probe: OneProcess) -> Iterator[str]:
    """Yield the highest possible rate of the chosen size if the causes were fixed."""
    best = probe.without_own_limit(chosen.case.server, chosen.size)
    if best is not None and best.rate >= LEAST_GAIN * (chosen.rate.value or 0.0):
        what = join_names([NAMES[kind] for kind in causes])
        limit = LIMITS[best.limit].format(cores=cores_name(probe.cores))
        yield f"Without {what}, at most {number(best.rate)}/s: then {limit} is the limit."


def _without_gil(causes: Sequence[Kind], chosen: Option, probe: OneProcess) -> Iterator[str]:
    """Yield that threads do not share a GIL in a free-threaded Python, if it limits them."""
    has_threads = (chosen.size.threads or 1) > 1 and probe.cores > 1
    if has_threads and Kind.GIL_SATURATED in causes and Kind.GIL_IMPORT not in causes:
        yield "In a free-threaded Python (see offload pythons), the threads do not share a GIL."


def _on_more_cores(answer: ApplicationAnswer, probe: OneProcess) -> Iterator[str]:
    """Yield the predicted rate with twice the cores, and with twice the processes if they fit."""
    chosen, cores = answer.chosen, 2 * probe.cores
    size = _doubled(chosen, answer.question.memory_mib)
    found = probe.predict(chosen.case.server, size, cores)
    name = size_name(chosen.case.server, size)
    if found is not None and found.rate >= LEAST_GAIN * (chosen.rate.value or 0.0):
        yield f"On {cores} cores with {name}: {number(found.rate)}/s by the prediction."


def _doubled(chosen: Option, memory_mib: float | None) -> Size:
    """Return a size with twice the processes, or with as many as are possible."""
    if not sizes.has_processes(catalog.find_server(chosen.case.server)):
        return chosen.size
    most = min(2 * chosen.size.processes, sizes.MOST_PROCESSES)
    if memory_mib is not None and chosen.worker_mib:
        most = min(most, int(memory_mib / chosen.worker_mib))
    return replace(chosen.size, processes=max(most, chosen.size.processes))
