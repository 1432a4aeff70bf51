"""The processes of one load: divide the users among them and collect their samples."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from time import monotonic

from offload import prctl
from offload.loads import Load
from offload.loads.engine.figures.samples import Samples
from offload.loads.engine.shared_state import LOAD_END, SharedState
from offload.loads.engine.worker import work


@dataclass(frozen=True)
class LoadProcesses:
    """The running processes of a load, and the pipes by which they send their samples."""

    children: Sequence[ForkProcess]
    pipes: Sequence[Connection]
    state: SharedState

    def samples(self) -> list[Samples]:
        """Wait for the end of all processes; return the samples of each."""
        found = _receive(self.pipes, self.state)
        for child in self.children:
            child.join()
        return found


def run(load: Load, state: SharedState) -> list[Samples]:
    """Run a load in several processes; return the samples of each."""
    return start(load, state).samples()


def start(load: Load, state: SharedState) -> LoadProcesses:
    """Start the processes of a load, or on one of several hosts those of this host."""
    parts = divide(load)[state.first : state.first + state.processes]
    # Fork, because the state is shared memory. It is safe: no event loop or thread runs yet.
    context = multiprocessing.get_context("fork")
    pipes, children = [], []
    try:
        for process, part in enumerate(parts):
            reading, writing = context.Pipe(duplex=False)
            child = context.Process(
                target=_child, args=(part, load, state, process, writing, os.getpid())
            )
            child.start()
            writing.close()
            pipes.append(reading)
            children.append(child)
    except OSError:  # a limit, for example of processes: the others would wait for this one
        state.decide(LOAD_END, monotonic())
        raise
    return LoadProcesses(children, pipes, state)


def divide(load: Load) -> list[Load]:
    """Divide a load's users and requests; the parts add up to the whole."""
    count = load.processes
    return [
        replace(
            load,
            users=_share(load.users, count, process),
            requests=None if load.requests is None else _share(load.requests, count, process),
            seed=load.seed * count + process,
        )
        for process in range(count)
    ]


def _share(amount: int, count: int, process: int) -> int:
    return amount // count + (process < amount % count)


def _child(
    part: Load, whole: Load, state: SharedState, process: int, pipe: Connection, parent: int
) -> None:
    prctl.end_with(parent)  # even if it is killed by SIGKILL
    pipe.send(work(part, whole, state, process))  # arrays are pickled as bytes


def _receive(pipes: Sequence[Connection], state: SharedState) -> list[Samples]:
    """Receive the samples of each process; if a process died, report it and end the others."""
    samples: dict[Connection, Samples] = {}
    while len(samples) < len(pipes):
        for pipe in wait(pipe for pipe in pipes if pipe not in samples):
            assert isinstance(pipe, Connection)
            try:
                samples[pipe] = pipe.recv()
            except (EOFError, OSError):  # OSError: it died while it sent its samples
                state.decide(LOAD_END, monotonic())
                samples[pipe] = Samples(problem=f"load process {pipes.index(pipe) + 1} died")
    return [samples[pipe] for pipe in pipes]
