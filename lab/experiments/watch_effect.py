"""Test rho of fab watch, and its effect on the rate.

Usage: python -m lab watch_effect [SERVER]

For SERVER, or gunicorn, uvicorn and granian, rho of `fab watch` is compared with rho of the sampler
under the same load; the worker itself reports the GIL address that the sampler reads. Then a server
with 4 threads is loaded in 120 pairs of slices. It is watched in one slice of each pair, in random
order. The exit code is 0 if each rho differs by at most 0.05, and if the 95 % interval of the ratio
does not exclude 0.98 of the rate without watching. It takes about 10 minutes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from offload import loads, prctl
from offload.engine import decisions, server
from offload.engine.gil_sampler import GilSampler
from offload.engine.workload import get
from offload.loads import Load, Window
from offload.registry import catalog
from offload.suites import Case
from scripts.script import ROOT, run

SERVERS = ("gunicorn_gthread", "uvicorn_httptools", "granian_wsgi")
TASK = f"{Path(__file__).with_name('gil_task.py')}:hold_gil"
SECONDS = 20.0  # s of load of each server: rho has a standard error of 0.01 to 0.02 then
WITHIN = 0.05
PAIRS, SLICE, WARM = 120, 1.8, 0.2  # s of each slice, and of the warm-up before it
LEAST = 0.98
WATCH = "import sys; sys.argv[0] = 'offload'; from offload.cli import main; main()"


def main(arguments: list[str]) -> int:
    """Measure, print, and return the exit code."""
    servers = [catalog.find_server(name).name for name in arguments] or SERVERS
    prctl.adopt_orphans()
    agree = [_agrees(name) for name in servers]
    ratio = _effect(servers[0])
    return 0 if all(agree) and (ratio.high or 0.0) >= LEAST else 1


def _agrees(name: str) -> bool:
    """Print rho of the sampler and of `fab watch` under one load; return whether they agree."""
    running = server.start(Case(name, TASK), {})
    try:
        inside = json.loads(get(running.url))
        load = Load(running.url, users=2, seconds=SECONDS, keep_alive=True)
        with _Watching(running) as watching, GilSampler(inside) as sampler:
            loads.run(load, "builtin")
            readings = [json.loads(line) for line in watching.end()]
    finally:
        server.stop(running, server.SHORT_DRAIN)
    pid = inside["gil_address"]["pid"]
    found = [(each["time"], _rho(each, pid)) for each in readings if each["type"] == "reading"]
    whole = [rho for _, rho in found[1:-1]]  # the load covers these seconds entirely
    monotonic = time.monotonic() - time.time()
    own = sampler.between(found[0][0] + monotonic, found[-2][0] + monotonic)
    watched = sum(whole) / len(whole)
    print(f"{name}: rho of the sampler {own.share or own.why}, of watch {watched:.4f}", flush=True)
    return own.share is not None and abs(own.share - watched) <= WITHIN


def _rho(reading: dict[str, Any], pid: int) -> float:
    [rho] = [each["rho"] for each in reading["processes"] if each["pid"] == pid]
    return float(rho)


class _Watching:
    """A process that runs `fab watch` of a server, from its first line to `end`."""

    def __init__(self, running: server.Server) -> None:
        words = ",".join((f"watch:{running.facts['pid']}", "format=json"))
        argv = [sys.executable, "-c", WATCH, words]
        self._process = subprocess.Popen(
            argv,
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that `pause` reaches the samplers of stacks, too
        )
        assert self._process.stdout is not None
        self._lines = [self._process.stdout.readline()]

    def __enter__(self) -> _Watching:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.end()

    def end(self) -> list[str]:
        """End the process, and return its lines."""
        self.pause(False)
        self._process.terminate()
        self._lines.extend(self._process.communicate(timeout=20)[0].splitlines())
        return self._lines

    def pause(self, is_paused: bool) -> None:
        """Pause or resume watching."""
        os.killpg(self._process.pid, signal.SIGSTOP if is_paused else signal.SIGCONT)


def _effect(name: str) -> decisions.Verdict:
    """Print and return the ratio of the rates, with watch over without."""
    pairs: list[tuple[float, float]] = []
    running = server.start(Case(name, "noop_sync"), {})
    try:
        load = Load(running.url, users=8, seconds=SLICE, keep_alive=True, window=Window(WARM))
        rng = random.Random()  # noqa: S311 - no secret
        with _Watching(running) as watching:
            for _ in range(PAIRS):
                watch_first = rng.random() < 0.5
                first, second = (
                    _rate(load, watching, is_watched)
                    for is_watched in (watch_first, not watch_first)
                )
                pairs.append((second, first) if watch_first else (first, second))
            used = json.loads(watching.end()[-1])["own_cpu"]
    finally:
        server.stop(running, server.SHORT_DRAIN)
    found = decisions.compare_pairs(pairs, alpha=0.05)
    print(
        f"{name}, noop_sync: rate watched over not watched: {found.ratio:.4f}, 95 % interval "
        f"{found.low:.4f} to {found.high:.4f}, {len(pairs)} pairs; "
        f"watch used {2 * used:.3f} cores while it watched"
    )
    return found


def _rate(load: Load, watching: _Watching, is_watched: bool) -> float:
    watching.pause(not is_watched)
    ran = loads.run(load, "builtin")
    return ran.result.figures.rate or sys.exit(f"no rate: {ran.result.problem}")


if __name__ == "__main__":
    run(main)
