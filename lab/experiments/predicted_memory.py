"""Compare the predicted memory of each strategy with that of a real server.

Usage: python -m lab predicted_memory [TASK ...]

Each task (default: six of different sizes) is probed, then called 200 times by 25 users in a server
of each strategy with 2, 8 and 25 workers (prefork: 2 and 8). The output is a table of the measured
memory (PSS) in MiB, and of the predicted memory divided by it. It takes about 40 s per task.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tabulate import tabulate

from offload.bench.advice import strategies
from offload.bench.advice.inputs import probe_measurement
from offload.bench.advice.prediction import memory
from offload.bench.advice.strategies import Size
from offload.bench.target import server
from offload.bench.target.needed_upstream import hold_for
from offload.bench.telemetry.process_tree import ProcessTree
from offload.bench.trial import warmup
from offload.errors import RunError
from offload.suites import Case
from scripts.script import run

TASKS = (
    "noop_sync",
    "xml_lxml_sync",
    "docs.shop:quote",
    "lab.corpus.data:json_import",
    "lab.corpus.tables:pandas_join",
    "lab.corpus.images:thumbnail",
)
COUNTS = (2, 8, 25)
SIZES: tuple[Size, ...] = tuple(
    (name, count)
    for name in ("threads", "processes", "pipes", "prefork")
    for count in COUNTS
    if name != "prefork" or count < max(COUNTS)
)
USERS, REQUESTS = 25, 200


def main(words: list[str]) -> int:
    """Print the table and return the exit code."""
    rows = [row for task in words or TASKS for row in _rows(task)]
    heads = [f"{n} workers" for n in COUNTS]
    print(tabulate(rows, ["Task", "Strategy", *heads], tablefmt="rst"))
    return 0


def _rows(task: str) -> list[list[str]]:
    """Return a row for each strategy."""
    case = Case("threads", task, users=USERS)
    with hold_for(case) as upstream:
        probe = probe_measurement.measure(case, upstream, USERS)
        environment = {} if upstream is None else dict(upstream.environment())
        found: dict[str, list[str]] = {}
        for name, count in SIZES:
            sized = Case(name, task, settings=strategies.settings((name, count)))
            measured = _measured_mib(sized, environment)
            predicted = memory.predict_mib(probe, name, count)
            ratio = "unknown" if predicted is None else f"{predicted / measured:.2f}x"
            found.setdefault(name, []).append(f"{measured:.0f} ({ratio})")
    return [[task, name, *cells] for name, cells in found.items()]


def _measured_mib(case: Case, environment: dict[str, str]) -> float:
    """Return the memory of a server after REQUESTS requests; raise RunError if it is unknown."""
    running = server.start(case, environment)
    try:
        with ThreadPoolExecutor(USERS) as users:
            list(users.map(lambda _: warmup.get(running.url), range(REQUESTS)))
        found = ProcessTree(running.process.pid).memory()["memory_pss_mib"]
    finally:
        server.stop(running, server.SHORT_DRAIN)
    if found is None:
        raise RunError(f"the memory of {case.name} is unknown")
    return found


if __name__ == "__main__":
    run(main)
