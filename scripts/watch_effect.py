"""Test whether fab watch reads the right rho, and slows nothing: scripts/watch_effect.py [SERVER].

For each of gunicorn, uvicorn and granian, or the server named: rho by `fab watch` of its pid is
compared with that of the meter whose address the worker found itself, under the same load. Then a
server with 4 threads is loaded in 20 pairs of slices, one while it is watched and one not, in
random order. The exit code is 0 if each rho differs by at most 0.05, and if the rate while watched
is at least 0.98 of the other, as far as the 95 % interval shows. It takes about 2 minutes.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from _script import ROOT, run

from offload import loads, prctl
from offload.bench.stats import paired_test
from offload.bench.target import server
from offload.bench.telemetry.gil_sampler import GilSampler
from offload.bench.trial.warmup import get
from offload.loads import Load, Window
from offload.registry import catalog
from offload.suites import Case

SERVERS = ("gunicorn_gthread", "uvicorn_httptools", "granian_wsgi")
TASK = f"{Path(__file__).with_name('_half_held.py')}:half_held"
SECONDS = 8.0  # s of load of each server
WITHIN = 0.05
PAIRS, SLICE, WARM = 20, 1.5, 0.3  # s of each slice, and of the warm-up before it
LEAST = 0.98
WATCH = "import sys; sys.argv[0] = 'offload'; from offload.cli.program import main; main()"


def main(arguments: list[str]) -> int:
    """Measure, print, and return the exit code."""
    servers = [catalog.find_server(name).name for name in arguments] or SERVERS
    prctl.adopt_orphans()
    agree = [_agrees(name) for name in servers]
    ratio = _effect(servers[0])
    return 0 if all(agree) and ratio.high >= LEAST else 1


def _agrees(name: str) -> bool:
    """Print rho from inside and from outside under one load; return whether they agree."""
    running = server.start(Case(name, TASK), {})
    try:
        inside = json.loads(get(running.url))
        load = Load(running.url, users=2, seconds=SECONDS, keep_alive=True)
        with _watched(running) as lines, GilSampler(inside) as meter:
            loads.run(load, "builtin")
            readings = [json.loads(line) for line in lines()]
    finally:
        server.stop(running, server.SHORT_DRAIN)
    pid = inside["gil_word"]["pid"]
    found = [(each["time"], _rho(each, pid)) for each in readings if each["type"] == "reading"]
    whole = [rho for _, rho in found[1:-1]]  # the load covers these seconds entirely
    monotonic = time.monotonic() - time.time()
    own = meter.between(found[0][0] + monotonic, found[-2][0] + monotonic)
    watched = sum(whole) / len(whole)
    print(f"{name}: rho from inside {own.share or own.why}, by watch {watched:.4f}", flush=True)
    return own.share is not None and abs(own.share - watched) <= WITHIN


def _rho(reading: dict[str, Any], pid: int) -> float:
    [rho] = [each["rho"] for each in reading["processes"] if each["pid"] == pid]
    return float(rho)


@contextmanager
def _watched(running: server.Server) -> Iterator[Any]:
    """Watch a server from its first line on; the value returns the lines after the end."""
    words = [f"watch:{running.facts['pid']}", "format=json"]
    argv = [sys.executable, "-c", WATCH, ",".join(words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(argv, cwd=ROOT, text=True, **pipes)  # type: ignore[call-overload]
    assert process.stdout is not None
    lines: list[str] = [process.stdout.readline()]

    def end() -> list[str]:
        process.terminate()
        lines.extend(process.communicate(timeout=20)[0].splitlines())
        return lines

    try:
        yield end
    finally:
        if process.poll() is None:
            end()


def _effect(name: str) -> paired_test.Verdict:
    """Print and return the ratio of the rates with watch over without."""
    pairs: list[tuple[float, float]] = []
    running = server.start(Case(name, "noop_sync"), {})
    try:
        load = Load(running.url, users=8, seconds=SLICE, keep_alive=True, window=Window(WARM))
        rng = random.Random()  # noqa: S311 - no secret
        for _ in range(PAIRS):
            watch_first = rng.random() < 0.5
            first, second = (_rate(load, running, on) for on in (watch_first, not watch_first))
            pairs.append((second, first) if watch_first else (first, second))
    finally:
        server.stop(running, server.SHORT_DRAIN)
    found = paired_test.compare(pairs, alpha=0.05)
    print(
        f"{name}, noop_sync: rate while watched over not: {found.ratio:.4f}, "
        f"95 % interval {found.low:.4f} to {found.high:.4f}, {len(pairs)} pairs"
    )
    return found


def _rate(load: Load, running: server.Server, is_watched: bool) -> float:
    with _watched(running) if is_watched else nullcontext():
        ran = loads.run(load, "builtin")
    return ran.result.figures.rate or sys.exit(f"no rate: {ran.result.problem}")


if __name__ == "__main__":
    run(main)
