"""What would change an answer: the function, the machine, or another Python."""

from __future__ import annotations

from collections.abc import Iterator

from offload.bench.advice import cluster
from offload.bench.advice.answer import Answer
from offload.bench.advice.prediction import limits
from offload.bench.advice.question_file import OtherPython
from offload.reports.advice.names import option_name, shorten
from offload.reports.tables.formats import number
from offload.units import percent, seconds

WAITING = 0.5  # share of its time that a call waits, above which a coroutine is recommended
LESS_CPU = 0.1  # minimum share of CPU time that kept pages must save; a guess
MALLOC = "MALLOC_MMAP_THRESHOLD_=16777216 and MALLOC_TRIM_THRESHOLD_=33554432"


def sentences(answer: Answer) -> Iterator[str]:
    """Yield which changes of the function or the machine would change the answer."""
    probe = answer.question.probe
    threads = answer.question.model.best_size("threads")
    if probe.gil_enabled and threads is not None and threads.limit == limits.GIL:
        yield "In a free-threaded Python (see offload pythons), threads do not share a GIL."
    if (saved := 1 - probe.kept_pages_factor) >= LESS_CPU:
        is_pipes = answer.chosen.strategy == "pipes"
        server = "a server with another strategy" if is_pipes else "the server"
        yield (
            f"With {MALLOC} in the environment of {server}, a process keeps the memory that calls "
            f"free, and a call needs {percent(saved)} less CPU."
        )
    if probe.call.parallelism > 1:
        yield (
            "With one thread in each call, for example by OPENBLAS_NUM_THREADS=1, more workers may "
            "be faster: set it and repeat."
        )
    if answer.chosen.prediction.limit == limits.CPU:
        yield "More cores, or less CPU per call, increase the rate."
        if cluster.is_worth_it(answer):
            yield f"More machines (dask) increase it, too, if a call takes over {_break_even()}."
    is_blocking = not probe.is_coroutine or probe.blocks_loop
    if is_blocking and probe.call.wait_s > WAITING * probe.call.wall_s:
        yield "A coroutine that awaits needs no workers."
    if answer.chosen.prediction.limit == limits.EXTERNAL:
        yield "Find what the calls wait for: a lock, a pool of connections, or a remote service."
    if probe.call.connections:
        yield (
            "Each call opens a network connection. Keep it open, for example with requests.Session "
            "or a pool, to save this time."
        )
    for other in answer.question.pythons:
        yield _other_python(other)


def _other_python(found: OtherPython) -> str:
    """Return the best strategy in another Python, or why it is unknown."""
    best = found.prediction
    if best is None:
        return f"In Python {found.name}: {shorten(found.problem or 'unknown')}."
    name = option_name(best.strategy, best.workers)
    return (
        f"In Python {found.name}: {name} with {number(best.rate)}/s by the prediction, "
        f"{found.ratio or 0.0:.2f}x of the best prediction here."
    )


def _break_even() -> str:
    """Return the duration of a call above which other machines help, with its interval."""
    known = cluster.BREAK_EVEN
    return f"{seconds(known.seconds)} ({seconds(known.low)} to {seconds(known.high)})"
