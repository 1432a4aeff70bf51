"""Measure what a task on a dask cluster costs, and simulate clusters of 10, 100 and 1,000 workers.

Usage: python -m lab cluster_capacity [--write]

A scheduler and three workers are started as processes of their own. Tasks that do nothing give the
CPU time of each process for a task, in submissions of one task and of 20, and the delay of a single
task. A simulation (simpy) with these costs is compared with measured rates on the same processes.
Then it simulates clusters whose processes have a core each:

Shortest task  the shortest task that keeps the workers busy for 90 % of the time
Limit          tasks/s that the scheduler can pass, or the server whose event loop submits them:
               the lower one of both

--write updates docs/how_to/machines.rst, with the verdict. The exit code is 1 if a simulated rate
differs by more than 30 % from the measured one. About 2 minutes; run it alone on the machine.
"""

from __future__ import annotations

import asyncio
import bisect
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from distributed import Client

from lab.experiments.cluster.cluster_simulation import Cluster, Costs
from lab.experiments.cluster.dask_processes import DaskProcesses
from offload import prctl, resource_limits
from offload.documents.text import TableLine, literal, render_table
from offload.engine import host
from offload.errors import UsageError
from offload.registry import places
from offload.units import number, percent, seconds
from scripts.pages.table import between
from scripts.script import ROOT, run

DOCUMENT = ROOT / "docs" / "how_to" / "machines.rst"
WORKERS, BATCH = 3, 20
LOAD_S, PASSES = 3.0, 3  # duration of one load in s, and number of loads at each point
POINTS = ((0.0, 1), (0.005, 1), (0.02, 1), (0.05, 1), (0.0, BATCH), (0.02, BATCH))
SIZES = (10, 100, 1000)
BATCHES = (1, 10, 100)
BUSY, NEAR = 0.9, 0.30
GRID_S = tuple(base * 10.0**power for power in range(-3, 1) for base in (1, 1.5, 2, 3, 5, 7))


@dataclass(frozen=True)
class Used:
    """The rate in tasks/s of a load, and the CPU times of each process for a task in s."""

    rate: float
    client_s: float
    scheduler_s: float
    worker_s: float


def main(words: list[str]) -> int:
    """Measure, compare, simulate and print; return the exit code."""
    if words not in ([], ["--write"]):
        raise UsageError(f"{' '.join(words)!r} is unknown", "use no words, or --write")
    prctl.adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="cluster-capacity-") as name:
        variables = {**os.environ, **places.import_path()}
        processes = DaskProcesses(Path(name), variables, WORKERS)
        processes.start()
        try:
            costs, measured = asyncio.run(_measure(processes))
        finally:
            processes.stop()
    validation, is_near = _validation(costs, measured)
    texts = [_costs_text(costs), validation, _table(costs)]
    print("\n\n".join(texts))
    if words:
        where = f"Measured on {host.sentence(host.environment())}."
        rst = [_costs_text(costs), literal("\n\n".join(texts[1:])), where]
        text = between(DOCUMENT.read_text(), "cluster", ["\n\n".join(rst)])
        DOCUMENT.write_text(text)
    return 0 if is_near else 1


async def _measure(processes: DaskProcesses) -> tuple[Costs, dict[tuple[float, int], Used]]:
    """Return the costs of a task, and the measured loads by task duration and batch."""
    async with Client(processes.address, asynchronous=True, set_as_default=False) as client:
        await client.wait_for_workers(WORKERS, timeout=30)
        alone_s = await _alone_s(client)
        found: dict[tuple[float, int], list[Used]] = {point: [] for point in POINTS}
        for _ in range(PASSES):  # every point in each pass: the machine's speed changes
            for task_s, batch in POINTS:
                used = await _load(client, processes, task_s, batch)
                found[task_s, batch].append(used)
                print(f"{seconds(task_s)}, batch {batch}: {used.rate:.0f}/s", file=sys.stderr)
    means = {point: _mean(own) for point, own in found.items()}
    one, many = means[0.0, 1], means[0.0, BATCH]
    names = ("client_s", "scheduler_s", "worker_s")
    messages_s = [_message_s(getattr(one, name), getattr(many, name)) for name in names]
    tasks_s = [getattr(one, name) - own_s for name, own_s in zip(names, messages_s, strict=True)]
    delay_s = max(0.0, alone_s - sum(messages_s) - sum(tasks_s))
    return Costs(*tasks_s, *messages_s, delay_s), means


def _message_s(alone_s: float, batched_s: float) -> float:
    """Return what a submission costs, from the costs of a task alone and in a batch."""
    return max(0.0, (alone_s - batched_s) / (1 - 1 / BATCH))


async def _alone_s(client: Client) -> float:
    """Return the median time in s of a single task that does nothing."""
    times = []
    for _ in range(100):
        began = time.perf_counter()
        await client.submit(time.sleep, 0.0, pure=False)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


async def _load(client: Client, processes: DaskProcesses, task_s: float, batch: int) -> Used:
    """Submit tasks for LOAD_S, and return their rate and CPU times."""
    done = 0
    pids = [os.getpid(), *processes.pids]
    before = [_cpu_s(pid) for pid in pids]
    began = time.perf_counter()

    async def submit() -> None:
        nonlocal done
        while time.perf_counter() - began < LOAD_S:
            await client.gather(client.map(time.sleep, [task_s] * batch, pure=False))
            done += batch

    await asyncio.gather(*(submit() for _ in range(_submitters(WORKERS, batch))))
    took_s = time.perf_counter() - began
    client_s, scheduler_s, *workers_s = (
        _cpu_s(pid) - known for pid, known in zip(pids, before, strict=True)
    )
    return Used(done / took_s, client_s / done, scheduler_s / done, sum(workers_s) / done)


def _submitters(workers: int, batch: int) -> int:
    """Return the submissions in flight that give each worker two tasks, at least two of them."""
    return max(2, 2 * workers // batch)


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def _mean(found: Sequence[Used]) -> Used:
    names = ("rate", "client_s", "scheduler_s", "worker_s")
    return Used(*(statistics.fmean(getattr(each, name) for each in found) for name in names))


def _costs_text(costs: Costs) -> str:
    task = [seconds(each) for each in (costs.client_s, costs.scheduler_s, costs.worker_s)]
    message = [
        seconds(each)
        for each in (costs.client_message_s, costs.scheduler_message_s, costs.worker_message_s)
    ]
    return (
        f"A task costs {task[0]} of CPU on the submitting event loop,\n"
        f"{task[1]} in the scheduler and {task[2]} in a worker.\n"
        f"Each submission of one or more tasks costs {message[0]}, {message[1]} and {message[2]}\n"
        f"more, and a task waits for messages for {seconds(costs.delay_s)}."
    )


def _validation(costs: Costs, measured: dict[tuple[float, int], Used]) -> tuple[str, bool]:
    """Return the table of measured and simulated rates with a verdict, and whether all are near."""
    lines, errors = [], []
    for (task_s, batch), used in measured.items():
        shared = Cluster(
            costs, WORKERS, _submitters(WORKERS, batch), batch, resource_limits.cpu_count()
        )
        simulated = shared.rate(task_s)
        errors.append(simulated / used.rate - 1)
        cells = (seconds(task_s), str(batch), f"{number(used.rate)}/s", f"{number(simulated)}/s")
        lines.append(TableLine((*cells, f"{100 * errors[-1]:+.0f} %")))
    head = ("Task waits", "Tasks in a submission", "Measured", "Simulated", "Difference")
    table = render_table(head, lines)
    return f"{table}\n\n{_verdict(errors)}", all(abs(each) <= NEAR for each in errors)


def _verdict(errors: Sequence[float]) -> str:
    """Return in a sentence what the comparison shows."""
    limit, largest = percent(NEAR), percent(max(errors, key=abs), sign="+")
    far = sum(abs(each) > NEAR for each in errors)
    if not far:
        return (
            f"All {len(errors)} simulated rates are within {limit} of the measured ones.\n"
            f"The largest difference is {largest}."
        )
    return (
        f"The validation fails: {far} of {len(errors)} simulated rates differ by more than\n"
        f"{limit} from the measured ones. The largest difference is {largest}."
    )


def _shortest(cluster: Cluster) -> float | None:
    """Return the shortest task of GRID_S that keeps BUSY of the workers busy; None if all do not.

    Longer tasks keep more of them busy, so that the grid can be halved.
    """

    def is_too_short(task_s: float) -> bool:
        rate = cluster.rate(task_s, max(3000, 15 * cluster.workers))
        return rate * task_s < BUSY * cluster.workers

    place = bisect.bisect_left(GRID_S, True, key=lambda task_s: not is_too_short(task_s))
    return GRID_S[place] if place < len(GRID_S) else None


def _table(costs: Costs) -> str:
    """Return the table of the simulated clusters."""
    lines = []
    for workers in SIZES:
        for batch in BATCHES:
            cluster = Cluster(costs, workers, _submitters(workers, batch), batch)
            shortest = _shortest(cluster)
            lines.append(
                TableLine(
                    (
                        str(workers),
                        str(batch),
                        "over 7 s" if shortest is None else seconds(shortest),
                        f"{number(cluster.limit)}/s",
                    )
                )
            )
    head = (
        "Workers (simulated)",
        "Tasks in a submission",
        f"Shortest task that keeps {percent(BUSY)} busy",
        "Limit",
    )
    return render_table(head, lines)


if __name__ == "__main__":
    run(main)
