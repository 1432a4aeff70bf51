"""Sample the stacks of a server's processes under load: their lines are in ``hot_lines.py``.

::

    py-spy             ---> three files ---+
    profiling.sampling ---> one file ------+--> Stacks --> count by line --> Who
    server process     ---> lines at which asyncio tasks await -------------^

py-spy runs three times at once: it samples the thread that holds the GIL, the threads that use a
CPU, and all threads. The sampled process is not stopped. A Python that has the module
profiling.sampling (3.15) samples all of it itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import psutil

from offload import loads
from offload.engine import server_reports
from offload.engine.application import HotLine, Who
from offload.engine.hot_lines import (
    AWAITS,
    FEW,
    LEAST,
    MOST,
    OWN_THREAD,
    RETRIES,
    Endpoints,
    Frame,
    Samples,
    Stack,
    backs_off,
    find_created,
    find_library_line,
    find_lines,
    parse_py_spy,
)
from offload.engine.processes import ProcessTree
from offload.engine.retry_loops import sleeps_before_retry
from offload.engine.sockets import list_peers
from offload.errors import UserError
from offload.loads import Figures, Load, Window

SECONDS = 2  # s of samples
LATEST_S = 2.5  # s until the samplers are asked to end, because the machine is busy
KILL_S = 0.4  # s until they are killed then
DUMP_S = (
    10.0  # s until a single look at the stacks has ended, which takes 0.05 s on an idle machine
)
RATE = 100  # samples per second
ALMOST_ALL = 0.9  # of the samples: in a process with fewer some failed
ERRORS = re.compile(r"Errors: (\d+)")  # in the log of py-spy
KINDS = {"holding": ["--gil"], "running": [], "every": ["--idle"]}
NOT_INSTALLED = "py-spy is not installed: pip install 'offload[who]'"
NOT_ALLOWED = (
    "this user may not read the stacks of pid {pid}: run as root, or "
    "allow it by sysctl kernel.yama.ptrace_scope=0"
)
LOAD_S = 2.6  # s of load, in which the samplers start, too
START_S, POLL_S = 1.5, 0.01  # s until the load tool has started
SYS_PTRACE = 1 << 19  # the capability with which root reads any process
ADDRESS = "\0offload-tracer-{pid}"
ANSWER_S = 0.3  # s until a process that is idle has answered; a guess
NOTE_EVERY_S = 0.2  # s between two notes of what tasks await
ENDED = "pid {pid} has ended"
NO_SAMPLES = "no stack of pid {pid} was sampled"
TOO_BUSY = "the stacks of pid {pid} could not be sampled in time: the machine is too busy"


def sample_stacks(pid: int) -> Samples | str:
    """Sample the stacks of a process and its children, or return why they cannot be sampled.

    They should be busy meanwhile. It takes at most 3 s.
    """
    before_s, began = _cpu_s(pid), time.monotonic()
    found = _sample_by_tool(pid)
    after_s, lasted_s = _cpu_s(pid), time.monotonic() - began
    if isinstance(found, str) or before_s is None or after_s is None:
        return found
    return replace(found, cores=max(0.0, after_s - before_s) / lasted_s)


def _cpu_s(pid: int) -> float | None:
    """Return the CPU time of a process and its children so far; None if it is unknown."""
    with suppress(UserError):
        return ProcessTree(pid).cpu_s()
    return None


def _sample_by_tool(pid: int) -> Samples | str:
    if (python := find_python(pid)) is not None and has_sampler(python):
        return run_own_sampler(python, pid)
    if (program := find_py_spy()) is None:
        return NOT_INSTALLED
    with tempfile.TemporaryDirectory(prefix="who-", ignore_cleanup_errors=True) as into:
        return run_py_spy(program, pid, Path(into))


def sample_server(
    facts: Mapping[str, object], load: Load, folder: Path
) -> tuple[Who, Figures | None]:
    """Sample a server that this process started, by its ready line `facts`, under a load.

    Return also the figures of this load, None if there was none. Its rate is lower by the sampling.
    """
    loaded: list[Figures] = []
    found = _sample_under_load(facts, load, folder, loaded)
    return found, loaded[0] if loaded else None


def _sample_under_load(
    facts: Mapping[str, object], load: Load, folder: Path, loaded: list[Figures]
) -> Who:
    pid = int(str(facts["pid"]))
    if find_py_spy() is None and not ((python := find_python(pid)) and has_sampler(python)):
        return Who(why=NOT_INSTALLED)
    is_application = server_reports.serves_application(facts)
    timed = replace(load, seconds=LOAD_S, requests=None, window=Window())
    loading = threading.Thread(target=_send, args=(timed, loaded), daemon=True)
    permission = allow_sampling(facts) if needs_permission() else nullcontext()
    with permission:
        port = int(str(facts["port"]))
        before = list_peers(port)
        loading.start()
        ends = time.monotonic() + START_S
        while time.monotonic() < ends and list_peers(port) <= before:
            time.sleep(POLL_S)
        try:
            began = time.monotonic()
            with _note_tasks(facts) if is_application else nullcontext():
                found = sample_stacks(pid)
            if isinstance(found, str):
                return Who(why=found)
            reports = server_reports.process_reports(facts, began, time.monotonic(), True)
        finally:
            loading.join(LOAD_S)
    endpoints = find_endpoints(reports)
    lines = find_lines(found, folder, endpoints)
    created = find_created(found, folder, endpoints)
    if any(line.share >= FEW and line.context != OWN_THREAD for line in lines):
        return Who(lines, created=created)
    every = (*find_awaits(reports, endpoints, folder), *lines)
    return Who(every[:MOST], library=find_library_line(found), created=created)


@contextmanager
def _note_tasks(facts: Mapping[str, object]) -> Iterator[None]:
    """Let each process of an application note at which lines its asyncio tasks are."""
    ended, pids = threading.Event(), server_reports.members(facts)

    def watch() -> None:
        while not ended.wait(NOTE_EVERY_S):
            server_reports.request_reports(pids, {"note": True}, ANSWER_S)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def find_endpoints(reports: Sequence[server_reports.Facts]) -> Endpoints:
    """Return which functions of a user's application are routes or dependencies."""
    return {
        (file, function): kind
        for report in reports
        for file, function, kind in report.get("endpoints", ())
    }


def find_awaits(
    reports: Sequence[server_reports.Facts],
    endpoints: Endpoints = MappingProxyType({}),
    folder: Path | None = None,
) -> list[HotLine]:
    """Return the lines at which most tasks await; a share is that of all awaiting tasks.

    Files are relative to `folder`, the user's.
    """
    counts, retrying = Counter[tuple[str, str, int]](), Counter[tuple[str, str, int]]()
    for report in reports:
        for each in report.get("awaited", ()):
            place = each["function"], each["file"], each["line"]
            counts[place] += each["count"]
            retrying[place] += sum(n for file, n in each["sleeping"].items() if backs_off(file))
    total = sum(counts.values())
    kinds = {name: kind for (file, name), kind in endpoints.items()}
    found = []
    for (function, file, line), count in counts.most_common(MOST):
        if count >= LEAST * total:
            is_retry = retrying[function, file, line] > count / 2
            is_retry = is_retry or sleeps_before_retry([(str(Path(folder or "", file)), line)])
            doing = RETRIES if is_retry else AWAITS
            share = round(count / total, 3)
            found.append(HotLine(function, file, line, share, doing, kinds.get(function)))
    return found


def _send(load: Load, loaded: list[Figures]) -> None:
    with suppress(UserError):
        loaded.append(loads.run(load, "builtin").result.figures)


def needs_permission() -> bool:
    """Whether Yama allows this process to read the memory of its descendants only."""
    try:
        scope = Path("/proc/sys/kernel/yama/ptrace_scope").read_text()
        status = Path("/proc/self/status").read_text()
    except OSError:  # another system, or a kernel without Yama
        return False
    effective = int(status.partition("\nCapEff:")[2].split(maxsplit=1)[0], 16)
    return scope.strip() == "1" and not effective & SYS_PTRACE


@contextmanager
def allow_sampling(facts: Mapping[str, object]) -> Iterator[set[int]]:
    """Let the processes of a server allow this one to read them; yield the pids that have.

    They do so while this process listens (see serving/metrics/tracer.py).
    """
    allowed: set[int] = set()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(ADDRESS.format(pid=os.getpid()))
        listener.listen()
        listener.settimeout(ANSWER_S)
        _request_update(facts)
        with suppress(TimeoutError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(ANSWER_S)
                    connection.recv(1)  # returns when the other side has closed it
                    allowed.add(server_reports.pid_of_peer(connection))
        try:
            yield allowed
        finally:
            listener.close()
            _request_update(facts)


def _request_update(facts: Mapping[str, object]) -> None:
    """Make the processes of a server look whether this process listens."""
    server_reports.process_reports(facts, 0.0, 0.0)
    with suppress(psutil.Error):
        root = psutil.Process(int(str(facts["pid"])))
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.Error):
                process.send_signal(signal.SIGURG)


class BackgroundSample(threading.Thread):
    """Sample a process now and again, in a thread of its own, until `result`.

    `samples` are the last ones in which a line of the user was seen, or else the last ones.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._found: Who | None = None
        self._stopped = threading.Event()
        self.samples: Samples | None = None
        self.folder: Path | None = None  # the one in which the process works
        with suppress(psutil.Error):
            self.folder = Path(psutil.Process(pid).cwd())

    def run(self) -> None:
        """Sample until `result`, or until the stacks cannot be sampled."""
        while True:
            found = sample_stacks(self._pid)
            if isinstance(found, str):
                self._found = self._found or Who(why=found)
                if found != TOO_BUSY.format(pid=self._pid):
                    return
            else:
                lines = find_lines(found, self.folder)
                if lines or self._found is None or not self._found.lines:
                    self.samples, self._found = found, Who(lines)
            if self._stopped.wait(AGAIN_S):
                return

    def result(self) -> Who | None:
        """Wait for the end, at most as long as sampling takes; None if it was not started."""
        self._stopped.set()
        if self.ident is not None:
            self.join(OWN_LATEST_S)
        return self._found


# Runs in the interpreter of the sampled process. Its lines are those of py-spy, behind their kind.
OWN_SAMPLER = """
import collections, sys, threading
from profiling.sampling.collector import Collector, extract_lineno
from profiling.sampling.constants import PROFILING_MODE_ALL, THREAD_STATUS_HAS_GIL
from profiling.sampling.constants import THREAD_STATUS_ON_CPU
from profiling.sampling.sample import SampleProfiler

class Stacks(Collector):
    def __init__(self, pid):
        self.pid, self.counts = pid, collections.Counter()

    def collect(self, stack_frames, timestamps_us=None):
        self.counts["rounds"] += 1
        for interpreter in stack_frames:
            for thread in interpreter.threads:
                self.add(thread, ";".join(
                    f"{frame.funcname} ({frame.filename}:{extract_lineno(frame.location)})"
                    for frame in reversed(thread.frame_info)
                ))

    def add(self, thread, frames):
        stack = f'process {self.pid}:"";thread ({thread.thread_id});{frames}'
        self.counts["every " + stack] += 1
        if thread.status & THREAD_STATUS_HAS_GIL:
            self.counts["holding " + stack] += 1
        if thread.status & THREAD_STATUS_ON_CPU:
            self.counts["running " + stack] += 1

    def export(self, filename): pass
    def collect_failed_sample(self): pass

seconds, interval_us, *pids = sys.argv[1:]
errors = []
def run(stacks):
    try:
        SampleProfiler(
            stacks.pid, int(interval_us), True,
            mode=PROFILING_MODE_ALL, skip_non_matching_threads=False,
        ).sample(stacks, float(seconds))
    except (Exception, SystemExit) as error:
        errors.append(f"{type(error.__cause__ or error).__name__}: {error}")

found = [Stacks(int(pid)) for pid in pids]
threads = [threading.Thread(target=run, args=[stacks]) for stacks in found]
for thread in threads: thread.start()
for thread in threads: thread.join()
for stacks in found:
    for stack, count in stacks.counts.items():
        print(stack, count)
if len(errors) == len(pids):
    sys.exit(f"Error: {errors[0]}")
"""
OWN_SECONDS, INTERVAL_US = "1.5", str(round(1e6 / RATE))
AGAIN_S = 60.0  # s between two samples of BackgroundSample, which take 0.5 s of CPU time
OWN_LATEST_S = 5.0  # s with the import of the modules, which take long on a busy machine
HAS_SAMPLER = """
from importlib.util import find_spec
raise SystemExit(not (find_spec("profiling") and find_spec("profiling.sampling")))
"""
INTERPRETER = re.compile(r"python(3(\.\d+t?)?)?")


def has_sampler(python: str) -> bool:
    """Whether an interpreter has the module profiling.sampling."""
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", HAS_SAMPLER],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=OWN_LATEST_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def run_own_sampler(python: str, pid: int) -> Samples | str:
    """Sample a process by its own interpreter, which has a sampler; return why it cannot."""
    try:
        pids = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
        done = subprocess.run(
            [python, "-I", "-S", "-c", OWN_SAMPLER, OWN_SECONDS, INTERVAL_US, *map(str, pids)],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=OWN_LATEST_S,
        )
    except subprocess.TimeoutExpired:
        return TOO_BUSY.format(pid=pid)
    except (psutil.Error, OSError):
        return ENDED.format(pid=pid)
    if done.returncode != 0:
        return _reason(done.stderr, pid)
    stacks: dict[str, list[str]] = {kind: [] for kind in ("rounds", *KINDS)}
    for line in done.stdout.splitlines():
        kind, _, rest = line.partition(" ")
        stacks.get(kind, []).append(rest)
    rounds = max(map(int, stacks["rounds"]), default=0)
    holding, running, every = (parse_py_spy("\n".join(stacks[kind]), pid) for kind in KINDS)
    if not every:
        return NO_SAMPLES.format(pid=pid)
    return Samples(dict.fromkeys(KINDS, rounds), holding, running, every)


def find_python(pid: int) -> str | None:
    """Return the interpreter of a process; None if it is another program.

    None also for a program of another user than root, which must not run as this user.
    """
    try:
        python = psutil.Process(pid).exe()
        is_trusted = Path(python).stat().st_uid in (0, os.geteuid())
    except (psutil.Error, OSError):
        return None
    return python if is_trusted and INTERPRETER.fullmatch(Path(python).name) else None


def find_py_spy() -> str | None:
    """Return the path of py-spy, beside this Python or on the path; None without one."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


def run_py_spy(program: str, pid: int, into: Path) -> Samples | str:
    """Run py-spy for each kind of samples at once; return the reason if it cannot sample."""
    command = [program, "record", "--pid", str(pid), "--subprocesses", "--threads"]
    command += ["--nonblocking", "--full-filenames", "--format", "raw"]
    command += ["--rate", str(RATE), "--duration", str(SECONDS)]
    runs = {
        kind: _start([*command, *words, "--output", str(into / kind)], into / f"{kind}.log")
        for kind, words in KINDS.items()
    }
    were_late = _end(runs.values(), time.monotonic() + LATEST_S)
    stacks = {
        kind: parse_py_spy(_read(into / kind), pid) if run.returncode == 0 else None
        for kind, run in runs.items()
    }
    failed = next((kind for kind, found in stacks.items() if found is None), None)
    if failed is not None:
        return _reason(_read(into / f"{failed}.log"), pid)
    holding, running, every = (found or [] for found in stacks.values())
    if not every:
        return NO_SAMPLES.format(pid=pid)
    threads: Counter[tuple[int, str]] = Counter()
    for stack in every:
        threads[stack.pid, stack.thread] += stack.count
    seen = max(threads.values())  # a thread that lives in the whole window is in every round
    rounds, failing = {}, _count_failing(threads)
    for kind, run in runs.items():
        failed_rounds = _count_errors(_read(into / f"{kind}.log")) / failing
        rounds[kind] = seen if run in were_late else round(RATE * SECONDS - failed_rounds)
    return Samples({kind: max(1, each) for kind, each in rounds.items()}, holding, running, every)


def _count_errors(log: str) -> int:
    """Return how often py-spy could not read a stack, because the process changed it meanwhile.

    It does not stop the process: of one that computes without a pause most samples may fail.
    """
    found = ERRORS.search(log)
    return int(found[1]) if found else 0


def _count_failing(threads: Mapping[tuple[int, str], int]) -> int:
    """Return in how many processes samples failed; `threads` has the samples of each thread."""
    of_process: dict[int, int] = {}
    for (pid, _), count in threads.items():
        of_process[pid] = max(count, of_process.get(pid, 0))
    return max(1, sum(count < ALMOST_ALL * RATE * SECONDS for count in of_process.values()))


def dump_stacks(pid: int) -> list[Stack]:
    """Return the stack of each thread of a process now; none if that is not possible."""
    if (program := find_py_spy()) is None:
        return []
    try:
        done = subprocess.run(
            [program, "dump", "--pid", str(pid), "--nonblocking", "--json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DUMP_S,
        )
        threads = json.loads(done.stdout) if done.returncode == 0 else []
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []
    return [
        Stack(
            pid,
            str(each["os_thread_id"]),
            tuple(
                Frame(call["name"].rpartition(".")[2], call["filename"], call["line"])
                for call in reversed(each["frames"])
            ),
            1,
            each["thread_name"] or "",
        )
        for each in threads
    ]


def _start(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )


def _end(runs: Iterable[subprocess.Popen[bytes]], deadline: float) -> list[subprocess.Popen[bytes]]:
    """Wait until the samplers end; interrupt those that are late, which then write their output."""
    late: list[subprocess.Popen[bytes]] = []
    try:
        for run in runs:
            try:
                run.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                run.send_signal(signal.SIGINT)
                late.append(run)
        for run in late:
            with suppress(subprocess.TimeoutExpired):
                run.wait(max(0.0, deadline + KILL_S - time.monotonic()))
    finally:
        for run in runs:
            if run.returncode is None:
                run.kill()
                run.wait()
    return late


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _reason(log: str, pid: int) -> str:
    """Return why py-spy failed, from what it printed."""
    words = ("permission denied", "permissionerror", "not permitted")
    if any(each in log.lower() for each in words):
        return NOT_ALLOWED.format(pid=pid)
    errors = [line.partition("Error: ")[2] for line in log.splitlines() if "Error: " in line]
    if not psutil.pid_exists(pid):
        return ENDED.format(pid=pid)
    if not errors:
        return TOO_BUSY.format(pid=pid)
    return f"the stacks of pid {pid} cannot be read ({errors[-1][:100]})"
