"""Kill the scheduler and the workers of a dask cluster at random, while clients send requests.

Usage: python -m lab dask_kill [MINUTES] [SEED] [idempotent]

A scheduler and three workers are processes of their own, and are started again when they end. On
them the server dask runs a task that is not idempotent, and that records each of its runs. Eight
clients send requests for MINUTES (default: 1). Meanwhile SIGKILL ends a process every 0.3 to 3 s,
one time in five the scheduler. After the last kill the server must respond with 200. It prints:

Requests   all requests that were sent
200        responses with the result: the task has recorded exactly one run
500, 503   responses with an error: the task may have run once (500), or has not run (503)
None       requests without a response: none is allowed
Twice      tasks that ran more than once: none is allowed
Lines      lines that the server logged, at most one a second

With `idempotent`, tasks are repeated: this shows that the check can find a task that ran twice. The
exit code is 1 if a promise is broken.
"""

from __future__ import annotations

import http.client
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from lab.experiments.cluster.dask_processes import DaskProcesses
from offload.documents.text import TableLine, render_table
from offload.options import arguments
from offload.registry import places
from scripts.script import ROOT, run

TASK = f"{Path(__file__).with_name('dask_tasks.py')}:charge"
WORKERS, CLIENTS = 3, 8
PAUSE = (0.3, 3.0)  # s between two kills
SCHEDULER_SHARE = 0.2
TIMEOUT = 60.0  # s for a response: longer is a request without a response
BACK = 30.0  # s after the last kill until the server responds with 200
HEAD = ("Kills", "Scheduler", "Requests", "200", "500", "503", "None", "Twice", "Lines")


@dataclass
class Load:
    """The responses of a server to `CLIENTS` clients, until `ended` is set."""

    port: int
    ended: threading.Event = field(default_factory=threading.Event)
    statuses: Counter[int | None] = field(default_factory=Counter)
    keys: list[str] = field(default_factory=list)  # of the responses with 200
    last: int | None = None
    errors: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        """Send requests one after the other."""
        while not self.ended.is_set():
            status, body = self._request()
            self.statuses[status] += 1
            self.last = status
            if status == 200:
                self.keys.append(body)
            else:
                self.errors[re.sub(r"[0-9a-f-]{8,}|\d+", "N", body)[:150]] += 1
                time.sleep(0.02)  # a client that is refused does not try again at once

    def _request(self) -> tuple[int | None, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        try:
            connection.request("GET", "/")
            response = connection.getresponse()
            return response.status, response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return None, repr(error)
        finally:
            connection.close()


def main(words: list[str]) -> int:
    """Kill, print the counts, and return the exit code."""
    minutes = arguments.number("MINUTES", words[0], 0.05, 600) if words else 1.0
    seed = arguments.whole_number("SEED", words[1], 0, 2**31) if words[1:] else 1
    is_repeated = words[2:] == ["idempotent"]
    with tempfile.TemporaryDirectory(prefix="dask-kill-") as name:
        folder = Path(name)
        runs = folder / "runs"
        runs.touch()
        environment = {
            **os.environ,
            **places.import_path(),
            "RUNS": str(runs),
            "TMPDIR": name,
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1" if is_repeated else "0",
        }
        cluster = DaskProcesses(folder, environment, WORKERS)
        cluster.start()
        try:
            return _check(cluster, folder, environment, minutes, seed, is_repeated)
        finally:
            cluster.stop()


def _check(
    cluster: DaskProcesses,
    folder: Path,
    environment: dict[str, str],
    minutes: float,
    seed: int,
    is_repeated: bool,
) -> int:
    log = folder / "log"
    process, port = _serve(cluster, log, environment, is_repeated)
    try:
        load = Load(port)
        clients = [threading.Thread(target=load.run, daemon=True) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        kills = _kill(cluster, load, minutes, seed)
        is_back = _serves_again(cluster, load)
        load.ended.set()
        for client in clients:
            client.join(TIMEOUT + 5)
        is_alive = process.poll() is None
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(15)
        process.kill()
    return _report(load, kills, folder / "runs", log, is_back, is_alive, is_repeated)


def _serve(
    cluster: DaskProcesses, log: Path, environment: dict[str, str], is_repeated: bool
) -> tuple[subprocess.Popen[bytes], int]:
    """Start the server when the cluster is ready; return its process and its port."""
    settings = {
        "SERVER_SCHEDULER": cluster.address,
        "SERVER_WORKERS": str(WORKERS),
        "SERVER_IDEMPOTENT": "yes" if is_repeated else "no",
        "SERVER_DIES_WITH": str(os.getpid()),
    }
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "offload.servers", "dask", TASK, "0"],
                cwd=ROOT,
                env={**environment, **settings},
                stderr=output,
            )
        while process.poll() is None:
            if found := re.search(r"serves .*:(\d+)/", log.read_text()):
                return process, int(found[1])
            time.sleep(0.05)
    sys.exit(f"the server does not start: {log.read_text()}")


def _kill(cluster: DaskProcesses, load: Load, minutes: float, seed: int) -> Counter[str]:
    """Kill processes, and start them again, until the time is over; count the kills."""
    rng = random.Random(seed)  # noqa: S311 - reproducible, not secret
    until = time.monotonic() + 60 * minutes
    kills: Counter[str] = Counter()
    at = time.monotonic() + rng.uniform(*PAUSE)
    while time.monotonic() < until:
        cluster.revive()
        time.sleep(0.05)
        if time.monotonic() < at:
            continue
        is_scheduler = rng.random() < SCHEDULER_SHARE
        cluster.kill(0 if is_scheduler else rng.randint(1, WORKERS))
        kills["scheduler" if is_scheduler else "worker"] += 1
        at = time.monotonic() + rng.uniform(*PAUSE)
        print(f"\r{kills.total()} kills", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return kills


def _serves_again(cluster: DaskProcesses, load: Load) -> bool:
    """Whether all clients get responses with 200 again after the last kill."""
    until = time.monotonic() + BACK
    while time.monotonic() < until:
        cluster.revive()
        before = load.statuses[200]
        time.sleep(0.2)
        if load.statuses[200] >= before + CLIENTS // 2:
            return True
    return False


def _report(
    load: Load,
    kills: Counter[str],
    runs: Path,
    log: Path,
    is_back: bool,
    is_alive: bool,
    is_repeated: bool,
) -> int:
    ran = Counter(runs.read_text().split())
    twice = sum(count > 1 for count in ran.values())
    lines = log.read_text().splitlines()[1:]
    counts = [load.statuses[status] for status in (200, 500, 503, None)]
    row = (kills.total(), kills["scheduler"], load.statuses.total(), *counts, twice, len(lines))
    print(render_table(HEAD, [TableLine(tuple(map(str, row)))]))
    for text, count in load.errors.most_common():
        print(f"{count} x {text.strip()}")
    unknown = sum(ran[key] != 1 for key in load.keys) if not is_repeated else 0
    failures = {
        "requests have no response": counts[3],
        "tasks ran more than once": 0 if is_repeated else twice,
        "responses with 200 are of tasks that did not run once": unknown,
        "other statuses": load.statuses.total() - sum(counts),
        "the server has ended": not is_alive,
        "the server does not serve again": not is_back,
    }
    for text, count in failures.items():
        if count:
            print(f"failed: {text} ({int(count)})", file=sys.stderr)
    return 1 if any(failures.values()) else 0


if __name__ == "__main__":
    run(main)
