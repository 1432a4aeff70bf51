"""R13: the server or the load tool of a benchmark fails in the middle of a load."""

from __future__ import annotations

import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from lab.faults.commands import bench_process
from lab.faults.commands.bench_process import BENCH, BenchExit, BenchProcess
from lab.faults.machine.processes import kill
from lab.faults.machine.waiting import wait_until
from lab.faults.row import NotAvailable, Outcome, Row, Size
from lab.faults.servers.faulty_server import faulty
from offload import loads
from offload.errors import RunError

SERVER = "loop"  # the server that is loaded
LOAD_S, LONG_S, USERS = 2, 5, 4  # LONG_S is sufficient for 1,000 consecutive failures
ROUNDS = f"measure:threads/sleep_short_sync,users={USERS},quick=yes"
IN_WINDOW = '"requests": null'  # in the arguments of builtin, not in those of a single request
MIDDLE_S = 0.5  # after the start of the load tool
POLL_S = 0.05
SIEGE = "siege"
# Instead of siege: the real one with another limit of users, the real one with a host that does not
# exist, and a program that neither ends nor obeys SIGTERM.
CAPPED = """\
#!/bin/sh
[ "$1" = -R ] && sed -i 's/^limit = .*/limit = 2/' "$2"
exec {siege} "$@"
"""
UNRESOLVED = """\
#!/bin/sh
for word in "$@"; do
    shift
    case $word in http://*) word=http://no.such.invalid/ ;; esac
    set -- "$@" "$word"
done
exec {siege} "$@"
"""
ENDLESS = """\
#!/bin/sh
[ "$1" = -R ] || exec {siege} "$@"
trap '' TERM INT
while :; do sleep 1; done
"""

Fault = Callable[[Path], Outcome]


def inject(name: str, _: Size) -> Outcome:
    """Let one part fail: the record must then have a problem, and the exit code must be 5.

    If the server fails in a round, the round is retried, so that the run continues.
    """
    with tempfile.TemporaryDirectory(prefix="offload-faults-") as folder:
        return FAULTS[name](Path(folder))


def _kill_server_in_round(folder: Path) -> Outcome:
    """Kill the server in the first window of a run; the run measures the round again."""
    with bench_process.running(ROUNDS, folder) as bench:
        wait_until(lambda: _is_in_window(bench) or not bench.is_running, bench_process.STARTED_S)
        for server in bench.servers():
            kill(server.pid)
        has_two = wait_until(
            lambda: len(bench_process.records(folder)) >= 2 or not bench.is_running,
            bench_process.COMPLETE_S,
        )
        bench.process.send_signal(signal.SIGTERM)
        ended = bench.wait()
    found = bench_process.records(folder)
    problems = [record.problem.text if record.problem else "" for record in found]
    retried = [record.trial.attempt for record in found[:2]] == [1, 2]
    is_kept = (
        bool(has_two) and problems[:1] == [KILLED_SERVER] and retried and not any(problems[1:])
    )
    figure = f"problem: {'; '.join(filter(None, problems)) or 'none'}"
    figure += ", the round was measured again" if retried else ", no second attempt"
    return Outcome(is_kept and ended.code == 130, f"{figure}; interrupted: exit {ended.code}")


def _kill_server_of_user(folder: Path) -> Outcome:
    """Kill a server that another process has started."""
    with faulty(SERVER, "ok") as target:
        words = _words(target.port, seconds=LONG_S)
        with bench_process.running(words, folder) as bench:
            _wait_for_middle(bench)
            kill(target.pid)
            ended = bench.wait()
    return _check_record(folder, ended, r"builtin stopped after \d+ consecutive failures")


def _disturb_tool(disturb: Callable[[BenchProcess], None], problem: str) -> Fault:
    """Return a fault: `disturb` is called while a benchmark runs."""

    def load_and_disturb(folder: Path) -> Outcome:
        with (
            faulty(SERVER, "ok") as target,
            bench_process.running(_words(target.port), folder) as bench,
        ):
            disturb(bench)
            ended = bench.wait()
        return _check_record(folder, ended, problem)

    return load_and_disturb


def _kill_tools(bench: BenchProcess) -> None:
    _wait_for_middle(bench)
    for tool in bench.tools():
        kill(tool.pid)


def _stop_tools(bench: BenchProcess) -> None:
    """Stop each load tool by SIGSTOP, also in the automatic second attempt."""
    while bench.is_running:
        for tool in bench.tools():
            with suppress(psutil.NoSuchProcess):
                tool.suspend()
        time.sleep(POLL_S)


def _replace_tool(program: str, problem: str) -> Fault:
    """Return a fault: `program` is started instead of siege."""

    def replace_and_run(folder: Path) -> Outcome:
        if (missing := loads.missing(SIEGE)) is not None:
            raise NotAvailable(missing)
        tools = folder / "bin"
        tools.mkdir()
        (tools / SIEGE).write_text(program.format(siege=shutil.which(SIEGE)))
        (tools / SIEGE).chmod(0o755)
        path = {"PATH": f"{tools}:{bench_process.PATH}"}
        with faulty(SERVER, "ok") as target:
            ended = bench_process.run(_words(target.port, SIEGE), folder, path)
        return _check_record(folder, ended, problem)

    return replace_and_run


def _words(port: int, driver: str = "builtin", seconds: int = LOAD_S) -> str:
    url = f"http://127.0.0.1:{port}/"
    return f"run_load_test:url={url},time={seconds},users={USERS},driver={driver}"


def _is_in_window(bench: BenchProcess) -> bool:
    with suppress(psutil.NoSuchProcess):
        return any(IN_WINDOW in " ".join(tool.cmdline()) for tool in bench.tools())
    return False


def _wait_for_middle(bench: BenchProcess) -> None:
    if bench.wait_for_tool() is not None:
        time.sleep(MIDDLE_S)  # the load tool sends requests; it reports nothing before its end


def _check_record(folder: Path, ended: BenchExit, problem: str) -> Outcome:
    """Check the only record, the exit code and the error message."""
    found = bench_process.records(folder)
    known = [record.problem.text for record in found if record.problem is not None]
    is_kept = len(found) == len(known) == 1 and re.match(problem, known[0]) is not None
    is_kept = is_kept and ended.code == RunError.exit_code and bool(ended.error)
    words = "; ".join(known) or ended.error or "none"
    return Outcome(is_kept, f"exit {ended.code}, {len(found)} record, problem: {words}")


KILLED_SERVER = "the server was ended by signal 9 (Killed)"
FAULTS: dict[str, Fault] = {
    f"{BENCH}-server-killed": _kill_server_in_round,
    f"{BENCH}-other-server-killed": _kill_server_of_user,
    f"{BENCH}-tool-killed": _disturb_tool(_kill_tools, r"builtin was ended by signal 9"),
    f"{BENCH}-tool-stopped": _disturb_tool(_stop_tools, r"builtin hung and was killed after \d+ s"),
    f"{BENCH}-tool-endless": _replace_tool(ENDLESS, r"siege hung and was killed after \d+ s"),
    f"{BENCH}-tool-capped": _replace_tool(CAPPED, rf"siege ran 2 instead of {USERS} users"),
    f"{BENCH}-tool-unresolved": _replace_tool(UNRESOLVED, r"no request was completed"),
}
ROW = Row(
    "R13",
    "the server or the load tool of a benchmark is killed, hangs or does not do its work",
    "the record has a problem, whatever the exit code of the tool; exit 5 and one line",
    inject,
    tuple(FAULTS),
)
