"""R16: the clock is set forward by an hour in the middle of a load; durations must not change.

The clock of the machine is not touched: see `shifted_clock`.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from lab.faults.commands import bench_process
from lab.faults.commands.bench_process import BENCH, BenchExit
from lab.faults.machine.shifted_clock import ShiftedClock
from lab.faults.row import NotAvailable, Outcome, Row, Size
from lab.faults.servers.faulty_server import FaultyServer, faulty
from offload import loads
from offload.engine.record import Record
from offload.errors import MachineError
from offload.units import percent

SERVER = "threads"  # the server that is loaded
TASK = "half a second"  # long, so that the noise of the machine is a small part of it
LOAD_S, USERS = 6, 2
MIDDLE_S = 2.0  # after the start of the load tool
STEP_S = 3600
MOST_CHANGE = 0.01  # of a duration
TOOLS = {BENCH: "builtin", f"{BENCH}-ab": "ab"}  # ab reads the time of the day


def inject(name: str, size: Size) -> Outcome:
    """Load a server twice, with and without the step, and compare the durations."""
    driver = TOOLS[name]
    if (missing := loads.missing(driver)) is not None:
        raise NotAvailable(missing)
    with tempfile.TemporaryDirectory(prefix="offload-faults-") as folder:
        try:
            clock = ShiftedClock(Path(folder))
        except MachineError as error:
            raise NotAvailable(str(error)) from error
        with faulty(SERVER, TASK, environment=clock.environment) as target:
            without = _measure(target, Path(folder, "without"), driver, clock, 0)
            step = _measure(target, Path(folder, "step"), driver, clock, STEP_S)
    if isinstance(without, BenchExit):
        return Outcome(False, f"without a step: {without.error or f'exit {without.code}'}")
    if isinstance(step, BenchExit):  # a reported problem is allowed, a wrong figure is not
        is_kept = driver != "builtin" and bool(step.error)
        return Outcome(is_kept, f"{driver}: {step.error or f'exit {step.code}'}")
    return _compare(without, step, driver, size)


def _measure(
    target: FaultyServer, results: Path, driver: str, clock: ShiftedClock, step_s: int
) -> Record | BenchExit:
    """Load the server, and set the clock in the middle; return the record, or how it failed."""
    servers = results / ".servers"
    servers.mkdir(parents=True)
    (servers / f"{target.port}.json").write_text(json.dumps(target.running.facts))
    words = f"run_load_test:port={target.port},time={LOAD_S},users={USERS},driver={driver}"
    with bench_process.running(words, results, clock.environment) as bench:
        bench.wait_for_tool()
        time.sleep(MIDDLE_S)  # the load tool reports nothing before its end
        clock.set(step_s)
        ended = bench.wait()
    found = bench_process.records(results)
    return ended if ended.code or not found else found[0]


def _compare(without: Record, step: Record, driver: str, size: Size) -> Outcome:
    """Compare the durations of the load, of a response and of a task in the server."""
    found, is_kept = [], True
    for name, one, other in (
        ("load", without.result.elapsed_s, step.result.elapsed_s),
        ("response", without.result.response.p50_s, step.result.response.p50_s),
        ("task", without.tasks.wall_s, step.tasks.wall_s),
    ):
        if not one or not other:
            found.append(f"{name} unknown")
            is_kept = False
            continue
        found.append(f"{name} {percent(other / one - 1, 2, '+')}")
        is_kept = is_kept and abs(other / one - 1) <= size.slack * MOST_CHANGE
    return Outcome(is_kept, f"{driver}: {', '.join(found)}")


ROW = Row(
    "R16",
    "the clock is set forward by an hour in the middle of a load",
    "durations are unchanged within 1 %; a load tool that reports an impossible time has a problem",
    inject,
    tuple(TOOLS),
)
