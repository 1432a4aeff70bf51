"""Check load from two hosts: two network namespaces, each with its own sshd, keys and address.

Usage: python -m lab two_namespaces [SECONDS]

It needs root, ip (iproute2) and sshd. The server runs in the usual namespace, and the load of
SECONDS (default: 10) comes from both others by SSH. The clock of the second host is 300 ms ahead of
all others. It checks that

pooled    the merged percentiles equal those of the pooled samples, to the last digit
count     the server's own count of responses agrees within 0.1 %
clock     the measured offset contains 0 and 300 ms, and both hosts start at the same time
arrivals  in an open loop, the requests of both hosts together arrive at equal intervals
killed    a load process that is killed in the middle is flagged, and the other host's part is kept
commands  fab run_load_test, fab -H, an open loop and fab measure do the same
left      no process is left in a namespace

The exit code is 1 if a check fails. Everything is removed at the end, also after a failure.
"""

from __future__ import annotations

import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from lab.experiments import private_sshd
from offload import ssh
from offload.documents.text import TableLine, render_table
from offload.engine import server, server_reports
from offload.errors import MachineError
from offload.loads import Arrivals, Load, hosts
from offload.loads.engine.processes import AgreedTimes
from offload.loads.hosts import HostResult, MergedLoad, merge, remote_host
from offload.loads.hosts.agent import SHARE
from offload.options import arguments
from offload.suites import Case
from scripts.script import ROOT, run

SECONDS = 10.0
SHIFT_MS = 300
NAMES = ("first", "second")
NETWORK = "10.77"
PORT = 2222
QUANTILES = {"p50_s": 0.5, "p90_s": 0.9, "p95_s": 0.95, "p99_s": 0.99, "p999_s": 0.999}
COUNT = 0.001
START_S = 0.02  # s between the starts of both hosts, in addition to the bounds of their clocks
LEFT_S = 5.0  # s until everything on a host has ended
COMMAND_S = 300.0
SHIFTER = Path(__file__).with_name("time_namespace.py")
TASK = "sleep_short_sync"


@dataclass(frozen=True)
class Namespace:
    """A network namespace: its name, its address and that of the usual namespace on the link."""

    name: str
    address: str
    ours: str

    @property
    def network(self) -> str:
        """The identity of its network, as in /proc/PID/ns/net."""
        found = _ip("netns", "exec", self.name, "readlink", "/proc/self/ns/net")
        return found.strip()


def main(words: list[str]) -> int:
    """Run all checks, and print the table."""
    if os.getuid():
        raise MachineError("network namespaces need root", "run it as root")
    if private_sshd.find() is None:
        raise MachineError(*private_sshd.MISSING.split(": ", 1))
    seconds = arguments.seconds("SECONDS", words[0], 1.0) if words else SECONDS
    checks: list[tuple[str, bool, str]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="namespaces-")))
        spaces = [
            stack.enter_context(namespace(number, name)) for number, name in enumerate(NAMES, 1)
        ]
        ssh_config = start_sshd(stack, folder, spaces)
        ssh.configure(str(ssh_config), "", None)
        case = Case("threads", TASK, settings={"bind": spaces[0].ours, "workers": 16})
        running = server.start(case, {})
        stack.callback(server.stop, running)
        load = Load(running.url, users=20, seconds=seconds, keep_alive=True)
        checks += check_closed_loop(load)
        checks += check_open_loop(replace(load, users=64, arrivals=Arrivals(200.0)))
        checks += check_killed(load, spaces[1].network)
        checks += check_commands(running.url, spaces[0].ours, ssh_config, folder, seconds)
        checks.append(check_left(spaces))
    lines = [TableLine([name, "yes" if good else "NO", text]) for name, good, text in checks]
    print(render_table(("Check", "Passed", "Figures"), lines))
    return 0 if all(good for _, good, _ in checks) else 1


@contextmanager
def namespace(number: int, name: str) -> Iterator[Namespace]:
    """Create a namespace with a link to the usual one; remove both after the block."""
    own = f"load-{os.getpid()}-{name}"
    ours, theirs = f"lh{os.getpid() % 100_000}-{number}", f"lt{os.getpid() % 100_000}-{number}"
    found = Namespace(own, f"{NETWORK}.{number}.2", f"{NETWORK}.{number}.1")
    _ip("netns", "add", own)
    try:
        _ip("link", "add", ours, "type", "veth", "peer", "name", theirs)
        _ip("link", "set", theirs, "netns", own)
        _ip("addr", "add", f"{found.ours}/24", "dev", ours)
        _ip("link", "set", ours, "up")
        _ip("-n", own, "addr", "add", f"{found.address}/24", "dev", theirs)
        for device in ("lo", theirs):
            _ip("-n", own, "link", "set", device, "up")
        _ip("-n", own, "route", "add", "default", "via", found.ours)
        yield found
    finally:
        subprocess.run(["ip", "link", "del", ours], capture_output=True, timeout=30)
        subprocess.run(["ip", "netns", "del", own], capture_output=True, timeout=30)


def start_sshd(stack: ExitStack, folder: Path, spaces: Sequence[Namespace]) -> Path:
    """Start sshd in each namespace; return the SSH configuration that knows both.

    The clock of the second one's `offload` is shifted.
    """
    shifted = folder / "shifted" / "offload"
    shifted.parent.mkdir()
    offload = Path(sys.executable).with_name("offload")
    words = [sys.executable, "-P", str(SHIFTER), str(SHIFT_MS), str(offload)]
    shifted.write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
    shifted.chmod(0o755)
    paths = ([offload.parent], [shifted.parent, offload.parent])
    lines = []
    for name, space, path in zip(NAMES, spaces, paths, strict=True):
        prefix = ["ip", "netns", "exec", space.name]
        sshd = stack.enter_context(
            private_sshd.running(
                folder / name, space.address, PORT, [*path, "/usr/bin", "/bin"], prefix
            )
        )
        lines.append(sshd.client_lines(name))
    config = folder / "ssh_config"
    config.write_text("\n".join(lines))
    return config


def check_closed_loop(load: Load) -> list[tuple[str, bool, str]]:
    """Check the figures of both hosts together, the server's count, and the clocks."""
    counted, times, results, merged = measure(load)
    first, second = (result.before for result in results)
    good = abs(first.ahead_s) <= first.bound_s
    good = good and abs(second.ahead_s - SHIFT_MS / 1000) <= second.bound_s
    offsets = f"{1000 * first.ahead_s:+.3f} +-{1000 * first.bound_s:.3f} ms, "
    offsets += f"{1000 * second.ahead_s:+.3f} +-{1000 * second.bound_s:.3f} ms"
    starts = [host.late_s for host in merged.hosts]
    late = ", ".join("unknown" if s is None else f"{1000 * s:.2f} ms" for s in starts)
    bound = START_S + first.bound_s + second.bound_s
    on_time = all(s is not None and -bound < s < bound for s in starts)
    return [
        pooled_check("closed loop", times, results, merged),
        count_check("closed loop", counted, merged),
        ("clock: offsets", good, offsets),
        ("clock: start after the agreed time", on_time, late),
    ]


def check_open_loop(load: Load) -> list[tuple[str, bool, str]]:
    """Check the figures of an open loop, and that both hosts share its schedule."""
    counted, times, results, merged = measure(load)
    assert load.arrivals is not None
    due: list[float] = []
    for result in results:
        clock = remote_host.clock_between(result.before, result.after)
        due += [clock.reference(at) for part in result.samples or () for at in part.due]
    gaps = [later - earlier for earlier, later in pairwise(sorted(due))]
    bound = sum(result.before.bound_s for result in results) + 0.001
    furthest = max(abs(gap - 1 / load.arrivals.rate) for gap in gaps)
    text = f"mean gap {1000 * statistics.mean(gaps):.4f} ms, largest difference "
    text += f"{1000 * furthest:.3f} ms"
    offered = merged.result.figures.offered
    text += f", {offered} offered in the window"
    return [
        pooled_check("open loop", times, results, merged),
        count_check("open loop", counted, merged),
        ("arrivals at equal intervals", furthest <= bound, text),
    ]


def check_killed(load: Load, network: str) -> list[tuple[str, bool, str]]:
    """Check that a host whose load process is killed in the middle is flagged."""
    killed: list[int] = []
    stopped = threading.Event()

    def kill() -> None:
        """Kill the share of the second host once it has run for half of the load."""
        until = time.monotonic() + 30
        while time.monotonic() < until and not stopped.wait(0.02):
            for pid in shares(network):
                if not stopped.wait((load.seconds or 0) / 2):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                return

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        _, times, results, merged = measure(load)
    finally:
        stopped.set()
        killer.join(60)
    flags = [flag for flag in merged.result.notes if flag.kind == "hosts"]
    kept = pooled_check("with one host", times, results, merged)
    one, other = merged.hosts
    good = bool(killed) and len(flags) == 1 and one.problem is None and other.problem is not None
    good = good and merged.result.problem is None and bool(merged.result.figures.completed)
    return [("killed: flagged", good, "; ".join(map(str, flags)) or "no flag"), kept]


def check_commands(
    url: str, address: str, ssh_config: Path, folder: Path, seconds: float
) -> list[tuple[str, bool, str]]:
    """Check the commands of a user, and their records."""
    both = "+".join(NAMES)
    length = f"time={seconds:g}"
    lines = {
        "run_load_test:from=": [
            "-S",
            str(ssh_config),
            f"run_load_test:url={url},from={both},{length}",
        ],
        "-H": ["-S", str(ssh_config), "-H", ",".join(NAMES), f"run_load_test:url={url},{length}"],
        "open loop": [
            "-S",
            str(ssh_config),
            f"run_load_test:url={url},from={both},{length},rate=200,keep_alive=yes,users=64",
        ],
        "measure": [
            "-S",
            str(ssh_config),
            f"measure:threads/{TASK},from={both},bind={address},quick=yes",
        ],
    }
    return [command_check(name, words, folder / "results") for name, words in lines.items()]


def command_check(name: str, words: Sequence[str], results: Path) -> tuple[str, bool, str]:
    """Run a command; check its exit code, and the hosts and counts in its newest records."""
    before = records(results)
    done = subprocess.run(
        [str(Path(sys.executable).with_name("fab")), *words],
        cwd=ROOT,
        env={**os.environ, "RESULTS": str(results)},
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
    )
    new = records(results)[len(before) :]
    if done.returncode or not new:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return f"command: {name}", False, f"exit code {done.returncode}: {last}"
    rates = [record["result"]["rate"] for record in new]
    good = all(agrees(record["load"]) for record in new)
    good = good and all([h["host"] for h in r["load"]["hosts"]] == [*NAMES] for r in new)
    flags = sorted({flag["kind"] for record in new for flag in record["flags"]})
    served = [record["load"]["served"] for record in new]
    received = [record["load"]["received"] for record in new]
    text = f"{statistics.mean(rates):.2f}/s in {len(new)}, served {served[-1]}, "
    return f"command: {name}", good, f"{text}received {received[-1]}, flags {flags or 'none'}"


def agrees(load: dict[str, Any]) -> bool:
    """Whether a record has the server's count, and it agrees with that of the hosts."""
    if load["served"] is None or load["received"] is None:
        return False
    least, most = load["received"], load["received"] + load["unanswered"]
    return bool(least * (1 - COUNT) <= load["served"] <= most * (1 + COUNT))


def records(results: Path) -> list[dict[str, Any]]:
    """Read all records below a folder, in the order of their files' last changes."""
    files = sorted(results.glob("*/records.jsonl"), key=lambda path: path.stat().st_mtime)
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def check_left(spaces: Sequence[Namespace]) -> tuple[str, bool, str]:
    """Check that only sshd runs in the namespaces."""
    networks = {space.network for space in spaces}
    until = time.monotonic() + LEFT_S
    while (left := [p for p in in_networks(networks) if "sshd" not in p.name()]) and (
        time.monotonic() < until
    ):
        time.sleep(0.1)
    return "left: no process", not left, ", ".join(map(str, left)) or "none"


def measure(load: Load) -> tuple[int | None, AgreedTimes, list[HostResult], MergedLoad]:
    """Run a load from both hosts; return the server's count of it, the samples and the figures."""
    together = hosts.whole_load(load, len(NAMES))
    before = server_reports.count_completed(load.url)
    with hosts.connected(NAMES) as connected:
        times, results = hosts.measure_on(connected, together)
    after = server_reports.count_completed(load.url)
    counted = None if before is None or after is None else after - before
    return counted, times, results, merge(together, times, results)


def pooled_check(
    name: str, times: AgreedTimes, results: Sequence[HostResult], merged: MergedLoad
) -> tuple[str, bool, str]:
    """Compare the merged percentiles with those of all samples in the window, pooled."""
    pooled: list[float] = []
    for result in results:
        clock = remote_host.clock_between(result.before, result.after)
        began, ended = clock.own(times.window_started), clock.own(times.window_ended or math.inf)
        for part in result.samples or ():
            at = part.started if part.due else part.ended
            pooled += [
                end - start
                for start, end, when in zip(part.started, part.ended, at, strict=True)
                if began <= when <= ended
            ]
    pooled.sort()
    response = merged.result.figures.response
    wrong = []
    for field, share in QUANTILES.items():
        expected = round(pooled[math.ceil(share * len(pooled)) - 1], 6) if pooled else None
        if getattr(response, field) != expected:
            wrong.append(f"{field}: {getattr(response, field)} instead of {expected}")
    good = not wrong and len(pooled) == merged.result.figures.completed
    text = f"{len(pooled)} samples, p50 {response.p50_s} s, p99 {response.p99_s} s"
    return f"pooled: {name}", good, "; ".join(wrong) or text


def count_check(name: str, counted: int | None, merged: MergedLoad) -> tuple[str, bool, str]:
    """Compare the server's own count with that of the hosts."""
    values = {"served": counted, "received": merged.received, "unanswered": merged.unanswered}
    return f"count: {name}", agrees(values), ", ".join(f"{k} {v}" for k, v in values.items())


def shares(network: str) -> list[int]:
    """Return the pids of the load on a host, the first of each load only."""
    found = []
    for process in in_networks({network}):
        try:
            words, parent = process.cmdline(), process.parent()
            is_first = parent is None or SHARE not in parent.cmdline()
        except psutil.Error:
            continue
        if SHARE in words and is_first:
            found.append(process.pid)
    return found


def in_networks(networks: set[str]) -> list[psutil.Process]:
    """Return the processes in some network namespaces."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(Path(f"/proc/{process.pid}/ns/net").readlink()) in networks:
                found.append(process)
        except OSError:  # it has ended
            continue
    return found


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise MachineError(
            f"ip {' '.join(words)}: {done.stderr.strip()}", "it needs root and iproute2"
        )
    return done.stdout


if __name__ == "__main__":
    run(main)
