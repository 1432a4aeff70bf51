"""Measure from which duration of a task on a dask cluster is worth it.

Usage: python -m lab dask_break_even [ROUNDS]

A task in pure Python of 1 to 100 ms of CPU is served by one and two processes, by two workers of
`pipes`, by one and two dask workers with its token (as a user's own task), and by two without it
(idempotent=yes). In each round every server is loaded with every duration for a second, in random
order. Meanwhile the processes of all other servers are stopped (SIGSTOP), because idle dask
processes use the CPU, too. It prints the rates and two break-evens of dask with its token, each
with a 95 % bootstrap interval over ROUNDS rounds (default: 8, about 12 minutes):

one process   dask on two workers completes as many tasks as one process
10 % loss     dask on two workers completes 90 % of the tasks of two processes

The exit code is 1 if a request failed, or if two dask workers complete less than 1.7 times as many
tasks of 100 ms as one.
"""

from __future__ import annotations

import math
import os
import random
import signal
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from offload import loads, prctl
from offload.documents.text import TableLine, render_table
from offload.engine import server
from offload.loads import Load, Window
from offload.options import arguments
from offload.suites import Case
from offload.units import number, seconds
from scripts.script import run

TASK = f"{Path(__file__).with_name('dask_tasks.py')}:spin"
DURATIONS = (1, 2, 4, 8, 16, 32, 64, 100)  # ms
ROUNDS, SLICE, WARM = 8, 1.0, 0.2  # s of each load, and of the warm-up before it
USERS = 8
SAMPLES = 2000  # of the bootstrap
LEAST = 1.7  # times the rate of one worker, for the longest task
ONE, TWO, PIPES, DASK_ONE, DASK = "processes x1", "processes x2", "pipes x2", "dask x1", "dask x2"
REPEATED = "dask x2, idempotent"
CASES = {
    ONE: Case("processes", TASK, settings={"workers": 1}),
    TWO: Case("processes", TASK, settings={"workers": 2}),
    PIPES: Case("pipes", TASK, settings={"workers": 2}),
    DASK_ONE: Case("dask", TASK, settings={"workers": 1}),
    DASK: Case("dask", TASK, settings={"workers": 2}),
    REPEATED: Case("dask", TASK, settings={"workers": 2, "idempotent": "yes"}),
}
Round = Mapping[tuple[str, int], float]  # the rate of a server with a duration


def main(words: list[str]) -> int:
    """Measure, print, and return the exit code."""
    count = arguments.whole_number("ROUNDS", words[0], 2, 1000) if words else ROUNDS
    prctl.adopt_orphans()
    running: dict[str, server.Server] = {}
    with tempfile.TemporaryDirectory(prefix="break-even-") as folder:
        spin = Path(folder, "spin")
        spin.write_text("1")
        os.environ["SPIN"] = str(spin)
        try:
            for name, case in CASES.items():
                running[name] = server.start(case, {})
            rounds = [_measure(running, spin, number) for number in range(count)]
        finally:
            for each in running.values():
                _pause(each, False)
                server.stop(each, server.SHORT_DRAIN)
    print(file=sys.stderr)
    _print_rates(rounds)
    _print_break_even("one process", rounds, ONE, 1.0)
    _print_break_even("10 % loss", rounds, TWO, 0.9)
    longest = DURATIONS[-1]
    gain = math.exp(statistics.fmean(_logs(rounds, DASK, DASK_ONE, longest)))
    machine = math.exp(statistics.fmean(_logs(rounds, TWO, ONE, longest)))
    print(f"two dask workers over one, {longest} ms: {gain:.2f}x (at least {LEAST} expected)")
    print(f"two processes over one, {longest} ms: {machine:.2f}x")
    return 0 if gain >= LEAST else 1


def _measure(running: Mapping[str, server.Server], spin: Path, index: int) -> Round:
    """Load every server with every duration once; exit if a request fails."""
    rng = random.Random(index)  # noqa: S311 - repeatable
    cells = [(name, duration) for name in running for duration in DURATIONS]
    rng.shuffle(cells)
    found = {}
    for each in running.values():
        _pause(each, True)
    for done, (name, duration) in enumerate(cells):
        print(f"\rround {index + 1}: {done} of {len(cells)}", end="", file=sys.stderr, flush=True)
        spin.write_text(str(duration))
        _pause(running[name], False)
        load = Load(running[name].url, USERS, seconds=SLICE, keep_alive=True, window=Window(WARM))
        result = loads.run(load, "builtin").result
        _pause(running[name], True)
        if not result.figures.rate or any(result.figures.failed.values()):
            sys.exit(f"{name}, {duration} ms: {result.problem or 'requests failed'}")
        found[name, duration] = result.figures.rate
    return found


def _pause(running: server.Server, is_paused: bool) -> None:
    """Stop or continue all processes of a server that have not ended."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(running.process.pid)
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP if is_paused else signal.SIGCONT)


def _print_rates(rounds: Sequence[Round]) -> None:
    lines = [
        TableLine(
            (
                f"{duration} ms",
                *(
                    number(statistics.fmean([each[name, duration] for each in rounds]))
                    for name in CASES
                ),
                f"{math.exp(statistics.fmean(_logs(rounds, DASK, ONE, duration))):.2f}",
                f"{math.exp(statistics.fmean(_logs(rounds, DASK, TWO, duration))):.2f}",
            )
        )
        for duration in DURATIONS
    ]
    head = ("Task", *CASES, "dask : one", "dask : two")
    print(render_table(head, lines))


def _print_break_even(name: str, rounds: Sequence[Round], other: str, share: float) -> None:
    """Print the duration from which on dask's rate is at least `share` of another server's."""
    value = _break_even(rounds, other, share)
    rng = random.Random(1)  # noqa: S311 - repeatable
    samples = [
        _break_even(rng.choices(rounds, k=len(rounds)), other, share) for _ in range(SAMPLES)
    ]
    ordered = sorted(math.inf if sample is None else sample for sample in samples)
    low, high = ordered[int(0.025 * SAMPLES)], ordered[int(0.975 * SAMPLES)]
    text = "none up to 100 ms" if value is None else seconds(value / 1000)
    ends = ["unknown" if math.isinf(end) else seconds(end / 1000) for end in (low, high)]
    print(
        f"break-even, {name}: {text} (95 % interval {ends[0]} to {ends[1]}, {len(rounds)} rounds)"
    )


def _break_even(rounds: Sequence[Round], other: str, share: float) -> float | None:
    """Return the duration in ms by interpolation between logarithms; None if dask never gains."""
    gains = [
        statistics.fmean(_logs(rounds, DASK, other, duration)) - math.log(share)
        for duration in DURATIONS
    ]
    last_loss = max((index for index, gain in enumerate(gains) if gain < 0), default=None)
    if last_loss is None:
        return float(DURATIONS[0])
    if last_loss == len(gains) - 1:
        return None
    loss, gain = gains[last_loss], gains[last_loss + 1]
    start, end = math.log(DURATIONS[last_loss]), math.log(DURATIONS[last_loss + 1])
    return math.exp(start + (end - start) * -loss / (gain - loss))


def _logs(rounds: Sequence[Round], one: str, other: str, duration: int) -> list[float]:
    return [math.log(each[one, duration] / each[other, duration]) for each in rounds]


if __name__ == "__main__":
    run(main)
