"""Warnings about the loads of the advised server, and about the function itself."""

from __future__ import annotations

from collections.abc import Iterator

from offload.bench.advice.answer import Answer
from offload.bench.advice.inputs.probe import Probe
from offload.reports.advice.names import option_name, shorten, size_name
from offload.units import percent, seconds

FAILS = 0.001  # minimum share of failed calls or requests that is reported
LEAKS_MIB = 0.01  # reported growth per call: 1 GiB after 100,000 requests; a guess
SLOW_START_S = 0.5  # s of the import and the first call, in each process; a guess
# Standard deviation of the call times over their mean, above which it is reported
REPORTED_VARIATION = 1.0


def sentences(answer: Answer) -> Iterator[str]:
    """Yield warnings about the loads and about the function itself."""
    probe, chosen = answer.question.probe, answer.chosen
    name = option_name(chosen.strategy, chosen.workers)
    yield from of_failed_requests(name, chosen.failed)
    if answer.is_measured:
        yield from of_memory(name, answer.question.memory_mib, answer.chosen.memory_mib)
    if (warning := answer.question.overhead_warning) is not None:
        yield f"{warning[0].upper()}{warning[1:]}; repeat the measurement at a quieter time."
    if answer.question.are_overheads_typical:
        yield (
            "The overheads of the strategies are typical ones, not those of this machine: "
            "offload advise with its default budget= measures them."
        )
    listed_below = {each.problem for each in answer.failures}
    if others := [each for each in answer.problems if each not in listed_below]:
        yield f"Some loads failed: {shorten(others[0].message)}."
    yield from _of_several_workers(probe, chosen.strategy)
    if probe.call.failed >= FAILS:
        error = "" if probe.call.error is None else f": {shorten(probe.call.error)}"
        yield f"{percent(probe.call.failed, 1)} of the calls failed{error}."
    if probe.process.leak_mib is not None and probe.process.leak_mib > LEAKS_MIB:
        yield (
            f"The process grew by {probe.process.leak_mib * 1000:.0f} MiB per 1,000 calls: it may "
            "leak memory; restart workers after a number of calls."
        )
    if probe.process.import_s + probe.process.first_s > SLOW_START_S + probe.call.wall_s:
        start_s = probe.process.import_s + probe.process.first_s - probe.call.wall_s
        yield f"Each new process needs {seconds(start_s)} to import and prepare the function."
    if probe.process.threads:
        threads = size_name("threads", probe.process.threads)
        yield f"The calls started {threads} of their own that still run."
    if probe.blocks_loop:
        blocked = seconds(probe.on_loop_s)
        yield f"The coroutine blocks its event loop for {blocked}, and all other requests wait."
    if probe.call.variation > REPORTED_VARIATION:
        yield (
            f"The times of calls vary: their standard deviation is {probe.call.variation:.1f} "
            "times their mean."
        )


def _of_several_workers(probe: Probe, strategy: str) -> Iterator[str]:
    """Yield warnings about calls that fail, or have other results, with several workers."""
    if not probe.points:  # the probe was interrupted
        yield (
            "The function was only called alone: it may fail in several threads or processes, or "
            "wait there for a lock."
        )
    cause = "the function does not work with several calls at a time"
    if probe.is_coroutine and not probe.fails_on_loop:
        cause = "the coroutine does not work with a new event loop for each call"
    if probe.differs_in_threads:
        yield "In threads the function returned different results: it is not thread-safe."
    if strategy == "threads" and probe.call.results > 1:
        yield (
            "Results differ between calls, so it cannot be checked whether threads return wrong "
            "results."
        )
    if probe.fails_on_loop:
        yield f"On one event loop concurrent calls failed: {cause}."
    if probe.fails_in_threads:
        yield f"In threads the calls failed: {cause}."
    if probe.fails_in_processes:
        yield f"In processes the calls failed: {cause}."


def of_failed_requests(name: str, share: float) -> Iterator[str]:
    """Yield a warning if requests to the advised server, `name`, failed."""
    if share >= FAILS:
        yield (
            f"{percent(share, 1)} of the requests to {name} failed under load: its rate and "
            "response times are those of successful requests."
        )


def of_memory(name: str, limit_mib: float | None, used_mib: float | None) -> Iterator[str]:
    """Yield a warning if the advised server, `name`, used more memory than the limit allows."""
    if limit_mib is not None and used_mib is not None and used_mib > limit_mib:
        yield f"{name} used {used_mib:.0f} MiB, more than the limit of {limit_mib:.0f} MiB."
