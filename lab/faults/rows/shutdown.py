"""R10: SIGTERM and SIGINT while requests are in progress."""

from __future__ import annotations

import os
import signal
import threading
import time

from lab.faults.clients import concurrent_clients
from lab.faults.machine.processes import is_gone
from lab.faults.machine.waiting import wait_until
from lab.faults.row import Outcome, Row, Size
from lab.faults.servers.faulty_server import FaultyServer, faulty
from offload.engine import server
from offload.units import seconds

CLIENTS = 4
EXIT_S = 10.0  # s for the drain
LEFT_S = 1.0  # s for processes that the server leaves
AT_ONCE_S = 1.0  # s until the exit after a second signal
STARTED_S = 5.0


def inject(name: str, size: Size) -> Outcome:
    """Send each signal during requests, and then two signals to a server whose task hangs."""
    found, is_kept = [], True
    for number in (signal.SIGTERM, signal.SIGINT):
        own, kept = _drain(name, number, size)
        found.append(f"{number.name}: {own}")
        is_kept = is_kept and kept
    took_s = _second_signal(name)
    found.append(
        "second signal: " + ("no exit" if took_s is None else f"exit after {seconds(took_s)}")
    )
    is_kept = is_kept and took_s is not None and took_s <= size.slack * AT_ONCE_S
    return Outcome(is_kept, "; ".join(found))


def _drain(name: str, number: signal.Signals, size: Size) -> tuple[str, bool]:
    """Return what happened to the requests in progress and to the processes."""
    with faulty(name, "half a second") as target:
        count = 1 if target.running.facts.get("serial") else CLIENTS
        statuses: list[int] = []
        sender = threading.Thread(
            target=lambda: statuses.extend(concurrent_clients.send_at_once(target.port, count))
        )
        sender.start()
        _wait_until_in_progress(target, count)
        children = target.descendants()
        os.kill(target.pid, number)
        sender.join()
        code = _exit_code(target, EXIT_S)
        left = wait_until(lambda: all(map(is_gone, children)), size.slack * LEFT_S)
    lost = sum(status != 200 for status in statuses)
    running = sum(not is_gone(child) for child in children)
    shown = "no exit" if code is None else f"exit {code}"
    words = f"{lost} of {count} requests lost, {shown}, {running} processes left"
    return words, not lost and code == 0 and left is not None


def _second_signal(name: str) -> float | None:
    """Return the seconds from the second signal to the exit; None if it did not exit."""
    with faulty(name, "hang") as target:
        sender = threading.Thread(target=lambda: concurrent_clients.send_at_once(target.port, 1))
        sender.start()
        _wait_until_in_progress(target, 1)
        os.kill(target.pid, signal.SIGTERM)
        time.sleep(server.SHORT_DRAIN)  # until then, a second signal is ignored
        began = time.monotonic()
        if _exit_code(target, 0.0) is None:
            os.kill(target.pid, signal.SIGTERM)
        code = _exit_code(target, EXIT_S)
        took_s = time.monotonic() - began
        target.act("ok")
        sender.join()
    return None if code is None else took_s


def _wait_until_in_progress(target: FaultyServer, count: int) -> None:
    """Wait until the kernel has accepted all connections, and a task has started."""
    wait_until(lambda: target.connected() >= count and target.calls() > 0, STARTED_S)


def _exit_code(target: FaultyServer, limit_s: float) -> int | None:
    """Return the exit code of a server, or minus a signal; None if it runs after the limit."""
    wait_until(lambda: not target.is_alive(), limit_s)
    return target.exit_code()


ROW = Row(
    "R10",
    "SIGTERM or SIGINT during requests",
    "no accepted request is lost, exit 0, no process left; a second signal ends it within 1 s",
    inject,
    ("sync", "loop", "threads", "processes", "pipes", "pebble", "prefork"),
    others={
        "plain_threads": "the standard executor has no such promise",
        "plain_processes": "the standard executor has no such promise",
        "gunicorn_sync": "gunicorn ends its workers by its own rules",
        "uvicorn_workers": "uvicorn ends its workers by its own rules",
        "granian_asgi": "granian ends its workers by its own rules",
    },
)
