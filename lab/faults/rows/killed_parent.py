"""R11: the first process of a server, or the bench that started one, is killed by SIGKILL."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import psutil

from lab.faults.clients import concurrent_clients
from lab.faults.commands import bench_process
from lab.faults.commands.bench_process import BENCH
from lab.faults.machine.processes import is_gone, kill_all
from lab.faults.machine.waiting import wait_until
from lab.faults.row import Outcome, Row, Size
from lab.faults.servers.faulty_server import FaultyServer, faulty
from offload.units import after

WITHIN_S = 2.0  # until all processes are gone and the port is free
START_S = 20.0  # until a call of the task, or the server of a benchmark, has started
TASKS = ("half a second", "hold the GIL")


def inject(server: str, size: Size) -> Outcome:
    """Kill the server while its workers wait, and while they hold the GIL in C code."""
    if server == BENCH:
        return _bench(size)
    found, is_kept = [], True
    for how in TASKS:
        words, kept = _kill_during(server, how, size)
        found.append(f"{how}: {words}")
        is_kept = is_kept and kept
    return Outcome(is_kept, "; ".join(found))


def _kill_during(server: str, how: str, size: Size) -> tuple[str, bool]:
    with faulty(server, how, workers=2) as target:
        sender = threading.Thread(target=lambda: concurrent_clients.send_at_once(target.port, 2))
        sender.start()
        wait_until(lambda: target.calls() > 0, START_S)
        children = target.descendants()
        os.kill(target.pid, signal.SIGKILL)
        gone_s = wait_until(lambda: all(map(is_gone, children)), 2 * size.slack * WITHIN_S)
        free_s = wait_until(lambda: _is_free(target), 2 * size.slack * WITHIN_S)
        kill_all(children)
        sender.join()
    times = (gone_s, free_s)
    words = f"{_describe_end(children, gone_s)}, port {after('free', free_s)}"
    return words, all(t is not None and t <= size.slack * WITHIN_S for t in times)


def _describe_end(children: Sequence[psutil.Process], gone_s: float | None) -> str:
    if not children:
        return "no other processes"
    known = "1 process" if len(children) == 1 else f"{len(children)} processes"
    return f"{known} {after('gone', gone_s)}"


def _is_free(target: FaultyServer) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            probe.bind(("127.0.0.1", target.port))
        except OSError:
            return False
    return True


def _bench(size: Size) -> Outcome:
    """Kill `offload measure` while its server runs."""
    children: list[psutil.Process] = []
    with (
        tempfile.TemporaryDirectory(prefix="offload-faults-") as results,
        bench_process.running("measure:4/sleep_sync", Path(results)) as bench,
    ):
        wait_until(lambda: bool(bench.servers()), START_S)
        children = bench.descendants()
        try:
            bench.kill()
            gone_s = wait_until(lambda: all(map(is_gone, children)), 2 * size.slack * WITHIN_S)
        finally:
            kill_all(children)
    words = _describe_end(children, gone_s)
    return Outcome(bool(children) and gone_s is not None and gone_s <= size.slack * WITHIN_S, words)


ROW = Row(
    "R11",
    "kill -9 of the server's first process, or of the bench",
    "no process is left and the port is free within 2 s, also if workers hold the GIL in C",
    inject,
    ("sync", "loop", "threads", "processes", "pipes", "pebble", "prefork", BENCH),
    others={
        "plain_processes": "the workers of the standard pool outlive their parent",
        **dict.fromkeys(
            ("gunicorn_sync", "uvicorn_workers", "granian_asgi"),
            "its processes end by its own rules, or by those of the process that starts it here",
        ),
    },
)
