"""The processes of one load: users divided among them, what they saw brought together."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from time import monotonic

from offload import prctl
from offload.loads import Load
from offload.loads.engine.samples import Samples
from offload.loads.engine.shared_state import OVER, Board
from offload.loads.engine.worker import work

PR_SET_PDEATHSIG = 1


def run(load: Load, board: Board) -> list[Samples]:
    """Run a load in as many processes as it asks for; give what each of them saw."""
    parts = divided(load)
    context = multiprocessing.get_context("fork")  # shares the board; no loop and no thread is yet
    pipes, children = [], []
    for process, part in enumerate(parts):
        reading, writing = context.Pipe(duplex=False)
        child = context.Process(
            target=_child, args=(part, load, board, process, writing, os.getpid())
        )
        child.start()
        writing.close()
        pipes.append(reading)
        children.append(child)
    seen = _received(pipes, board)
    for child in children:
        child.join()
    return seen


def divided(load: Load) -> list[Load]:
    """Divide users, requests and rate of a load; the shares add up to the whole."""
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
    part: Load, whole: Load, board: Board, process: int, pipe: Connection, parent: int
) -> None:
    prctl.end_with(parent)  # even by kill -9
    pipe.send(work(part, whole, board, process))  # arrays cross as their bytes


def _received(pipes: list[Connection], board: Board) -> list[Samples]:
    """Take what each process saw; when one died, say so and end the others."""
    seen: dict[Connection, Samples] = {}
    while len(seen) < len(pipes):
        for pipe in wait(pipe for pipe in pipes if pipe not in seen):
            assert isinstance(pipe, Connection)
            try:
                seen[pipe] = pipe.recv()
            except EOFError:
                board.decide(OVER, monotonic())
                seen[pipe] = Samples(problem=f"load process {pipes.index(pipe) + 1} died")
    return [seen[pipe] for pipe in pipes]
