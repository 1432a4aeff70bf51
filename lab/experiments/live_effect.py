"""Test whether the live page slows down the measured server.

Usage: python -m lab live_effect [PAIRS]

A server with 4 threads is loaded in PAIRS pairs of slices (default: 60). In one slice of each pair
the live page serves 20 streams, in the other one it is stopped; their order is random. In both, the
phase of a run changes each second and a record is added every two seconds, as in a real run. The
exit code is 0 if the whole 95 % interval of the ratio is above 0.98 of the rate without the page,
and the page's server uses at most 0.005 cores. It is 1 if the interval is below 0.98, or if the
server uses more, and 7 if the interval contains 0.98: then use more PAIRS. It takes about 3
minutes.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import psutil

from offload import loads, prctl
from offload.documents import live
from offload.documents.live import LivePage
from offload.engine import decisions, journal, server
from offload.engine.progress import announce_run, own_progress, write_progress
from offload.engine.record import WINDOW, Record
from offload.errors import GateError, UndecidedError
from offload.loads import Load, Window
from offload.options import arguments
from offload.suites import Case
from scripts.pages.committed import RESULTS
from scripts.script import run

EXAMPLE = RESULTS / "example-tornado"
SERVER = "threads"
PAIRS, SLICE, WARM = 60, 2.0, 0.2  # s of each slice, and of the warm-up before it
STREAMS = 20
LEAST, MOST_CORES = 0.98, 0.005
IDLE_S = 600.0


def main(words: list[str]) -> int:
    """Measure, print, and return the exit code."""
    pairs = arguments.whole_number("PAIRS", words[0], 2, 10_000) if words else PAIRS
    prctl.adopt_orphans()
    print_cost_of_a_phase()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        windows = [each for each in journal.read(EXAMPLE) if each.trial.kind == WINDOW]
        journal.append(folder, *windows)
        page = stack.enter_context(_page(folder))
        stack.enter_context(_running_run(folder, windows))
        running = server.start(Case(SERVER, "noop_sync"), {})
        stack.callback(server.stop, running, server.SHORT_DRAIN)
        load = Load(running.url, users=8, seconds=SLICE, keep_alive=True, window=Window(WARM))
        found, cores = _effect(load, page, pairs)
    print(
        f"{SERVER}, noop_sync: rate with the live page over without: {found.ratio:.4f}, 95 % "
        f"interval {found.low:.4f} to {found.high:.4f}, {pairs} pairs; with {STREAMS} streams the "
        f"page's server used {cores:.4f} cores"
    )
    return exit_code(found, cores)


def exit_code(found: decisions.Verdict, cores: float) -> int:
    """Return the exit code for the ratio of the rates and for the cores of the page's server."""
    assert found.low is not None
    assert found.high is not None
    if cores > MOST_CORES or found.high < LEAST:
        return GateError.exit_code
    return 0 if found.low >= LEAST else UndecidedError.exit_code


def print_cost_of_a_phase(times: int = 500) -> None:
    """Print the time that a run needs to publish a phase."""
    with tempfile.TemporaryDirectory() as name:
        announce_run(Path(name))
        start, cpu = time.perf_counter(), time.process_time()
        for _ in range(times):
            announce_run(Path(name))
        wall_us = (time.perf_counter() - start) / times * 1e6
        cpu_us = (time.process_time() - cpu) / times * 1e6
    print(f"a phase is published in {wall_us:.0f} us, {cpu_us:.0f} us of CPU", flush=True)


@contextmanager
def _running_run(folder: Path, windows: Sequence[Record]) -> Iterator[None]:
    """Write the files of an active run into a folder, with records of another run."""
    ended = threading.Event()

    def write() -> None:
        for number in range(10**6):
            if ended.wait(1.0):
                return
            record = windows[number % len(windows)]
            now, case_index = time.time(), record.trial.case_index or 0
            progress = own_progress(f"round {number}", "load", now + 1, now + 100)
            write_progress(folder, replace(progress, case_indexes=(case_index,), loaded=case_index))
            if number % 2:
                trial = replace(record.trial, round=100 + number // len(windows))
                journal.append(folder, replace(record, trial=trial))

    writing = threading.Thread(target=write)
    announce_run(folder)
    writing.start()
    try:
        yield
    finally:
        ended.set()
        writing.join()


@contextmanager
def _page(folder: Path) -> Iterator[LivePage]:
    """Serve the page, and read its streams in a separate process."""
    page = live.open_run(folder, IDLE_S)
    reader = os.fork()
    if not reader:
        _read_streams(page.url)
    try:
        yield page
    finally:
        for pid in (reader, page.pid):
            os.kill(pid, signal.SIGCONT)
            os.kill(pid, signal.SIGKILL)
        os.waitpid(reader, 0)


def _read_streams(url: str) -> None:
    """Read all streams until this process is killed."""
    parts = urllib.parse.urlsplit(url)
    request = f"GET {parts.path}events HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()
    streams = []
    for _ in range(STREAMS):
        streams.append(socket.create_connection((parts.hostname or "", parts.port or 0)))
        streams[-1].sendall(request)
    while all(stream.recv(1 << 20) for stream in streams):
        pass
    os._exit(1)


def _effect(load: Load, page: LivePage, pairs: int) -> tuple[decisions.Verdict, float]:
    """Return the ratio of the rates, and the number of cores that the page's server used."""
    process = psutil.Process(page.pid)
    used_s = shown_s = 0.0
    rates: list[tuple[float, float]] = []
    rng = random.Random()  # noqa: S311 - no secret
    for _ in range(pairs):
        both: dict[bool, float] = {}
        for is_shown in rng.sample([True, False], 2):
            process.send_signal(signal.SIGCONT if is_shown else signal.SIGSTOP)
            before, start = sum(process.cpu_times()[:2]), time.monotonic()
            both[is_shown] = _rate(load)
            if is_shown:
                used_s += sum(process.cpu_times()[:2]) - before
                shown_s += time.monotonic() - start
        rates.append((both[False], both[True]))
    return decisions.compare_pairs(rates, alpha=0.05), used_s / shown_s


def _rate(load: Load) -> float:
    ran = loads.run(load, "builtin")
    return ran.result.figures.rate or sys.exit(f"no rate: {ran.result.problem}")


if __name__ == "__main__":
    run(main)
