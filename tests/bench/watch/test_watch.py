"""Watching a running process from outside: its GIL is found, and its resource use is read."""

from __future__ import annotations

import ctypes
import errno
import io
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from offload.engine import gil_location
from offload.engine.gil_location import Gils, Runtime, Unreadable
from offload.engine.server import find_interpreter, user_paths
from offload.errors import MachineError, UsageError
from offload.studies.watch import gil_meter, response_time
from offload.studies.watch.gil_meter import OFF, ON, UNREADABLE, GilMeter, GilUse
from offload.studies.watch.readings import Reading, TreeReading, Watch
from offload.studies.watch.response_time import Requester, Response
from tests import ROOT
from tests.waiting import read_line, wait_until
from tests.watched import (
    BUSY,
    HASHING,
    HOSTILE_NAME,
    PARENT,
    RESTLESS_THREAD,
    SHORT_LIVED_CHILDREN,
    SLEEPING,
    running,
)

pytest.importorskip("elftools", reason="make setup installs pyelftools")
from elftools.elf.elffile import ELFFile

FORK = multiprocessing.get_context("fork")
PYTHONS = sorted({"3.11", "3.12", "3.13", "3.13t", "3.14", *user_paths()})
FIND = """
import sys
from offload.serving.metrics import own_gil
print(own_gil.find_address().address, flush=True)
sys.stdin.readline()
"""
TWO_INTERPRETERS = """
import sys, _interpreters
keep = _interpreters.create("isolated")
print(flush=True)
sys.stdin.readline()
_interpreters.destroy(keep)
print(flush=True)
sys.stdin.readline()
"""
# What 3.13.0 publishes, but with an interpreter state of 7,000 bytes, which ends before its GIL.
BEYOND_THE_END = (
    *(0x030D00F0, 0),
    *(283320, 624, 632),
    *(7000, 7272, 7264, 7344, 0, 0, 0, 0, 16, 7752, 0, 7768, 7760, *[0] * 11),
)
pytestmark = pytest.mark.server


def interpreter(name: str) -> str:
    """Return the path of an interpreter; skip the test if it is not here."""
    if name == ".".join(map(str, sys.version_info[:2])):
        return sys.executable
    try:
        return find_interpreter(name)
    except UsageError as error:
        pytest.skip(f"{error}, then make test-all")


def located(pid: int) -> Gils:
    runtime = gil_location.find_runtime(pid)
    found = gil_location.locate(runtime, gil_location.layout(runtime))
    gil_location.check(runtime, found)
    return found


def use(pid: int, seconds: float = 0.5) -> GilUse:
    """Return the use of a GIL over some time."""
    with GilMeter() as meter:
        meter.update([pid])
        meter.take()
        time.sleep(seconds)
        return meter.take()[pid]


# Where the GIL is


@pytest.mark.parametrize("name", PYTHONS)
def test_the_address_found_from_outside_is_the_one_found_inside(name: str) -> None:
    environment = {"PYTHON_GIL": "1"} if name.endswith("t") else {}
    with running(FIND, interpreter(name), environment) as process:
        found = located(process.pid)
    assert found.addresses == (int(process.first_line),)  # type: ignore[attr-defined]
    assert found.version.startswith(name.rstrip("t")) or "/" in name
    assert found.free_threaded is name.endswith("t")


def test_a_free_threaded_python_has_no_gil() -> None:
    with running(SLEEPING, interpreter("3.13t"), {"PYTHON_GIL": "0"}) as process:
        assert located(process.pid).addresses == ()
        found = use(process.pid, 0.1)
    assert (found.state, found.rho) == (OFF, None)


def test_each_interpreter_with_its_own_gil_is_found_and_forgotten() -> None:
    with running(TWO_INTERPRETERS, interpreter("3.14")) as process, GilMeter() as meter:
        meter.update([process.pid])
        assert meter.take()[process.pid].gils == 2
        print(file=process.stdin, flush=True)
        read_line(process.stdout)
        meter.update([process.pid])
        assert meter.take()[process.pid].gils == 1


@pytest.mark.parametrize("hidden", [(".PyRuntime",), (".PyRuntime", ".gnu.hash", ".symtab")])
def test_the_runtime_is_found_without_some_sections(hidden: tuple[str, ...]) -> None:
    """A stripped build has no .symtab; one without section headers has the dynamic segment."""
    with running(SLEEPING) as process:
        file = gil_location._mapped_files(process.pid)[0]
        with Path(file.place).open("rb") as stream:
            elf = ELFFile(stream)
            assert dict(gil_location._symbols(_Hiding(elf, hidden))) == dict(
                gil_location._symbols(elf)
            )
            assert {*dict(gil_location._symbols(elf))} == {"_PyRuntime", "Py_Version"}


class _Hiding:
    """An ELF file without some of its sections."""

    def __init__(self, elf: ELFFile, hidden: tuple[str, ...]) -> None:
        self._elf, self._hidden = elf, hidden
        self.iter_segments = elf.iter_segments

    def get_section_by_name(self, name: str) -> object:
        return None if name in self._hidden else self._elf.get_section_by_name(name)


def test_a_damaged_file_has_no_symbols(tmp_path: Path) -> None:
    with running(SLEEPING) as process:
        content = Path(gil_location._mapped_files(process.pid)[0].place).read_bytes()
    if (table := ELFFile(io.BytesIO(content)).get_section_by_name(".gnu.hash")) is None:
        pytest.skip("this Python has no .gnu.hash")
    start = table["sh_offset"]
    damaged = tmp_path / "libpython"
    damaged.write_bytes(content[:start] + bytes(16) + content[start + 16 :])  # no buckets
    assert gil_location._read_elf(str(damaged)) == ({}, ())


def test_an_old_python_reports_that_it_is_too_old() -> None:
    paths = sorted(Path.home().glob(".pyenv/versions/3.[89].*/bin/python3"))
    if not paths:
        pytest.skip("no Python 3.8 or 3.9 of pyenv is here")
    with (
        running(SLEEPING, str(paths[0])) as process,
        pytest.raises(Unreadable, match=r"is a Python older than 3\.11") as refused,
    ):
        located(process.pid)
    assert refused.value.kind == gil_location.UNSUPPORTED


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((0x030D00F0, 0, *[0] * 27), "its debug offsets fit 0 layouts"),
        ((0x030D00F0, 2, *[0] * 27), "its debug offsets are of another version"),
        (BEYOND_THE_END, "its debug offsets fit 0 layouts"),
    ],
)
def test_offsets_that_are_not_plausible_are_not_used(words: tuple[int, ...], why: str) -> None:
    published = ctypes.create_string_buffer(
        b"xdebugpy" + b"".join(w.to_bytes(8, "little") for w in words)
    )
    with pytest.raises(Unreadable) as refused:
        gil_location.layout(Runtime(os.getpid(), ctypes.addressof(published), None))
    assert why in str(refused.value)


def test_a_field_that_is_never_a_gil_is_not_used() -> None:
    fields = (ctypes.c_uint64 * 4)(5000, 0, 7, 0)
    gils = Gils("3.13.0", False, (ctypes.addressof(fields) + gil_location.LOCKED,))
    with pytest.raises(Unreadable, match="interval 5000 and locked 7"):
        gil_location.check(Runtime(os.getpid(), 0, None), gils)


# The share of time in which it is held


@pytest.mark.parametrize(("code", "low", "high"), [(BUSY, 0.95, 1.0), (SLEEPING, 0.0, 0.05)])
def test_rho_of_a_process_that_computes_or_sleeps(code: str, low: float, high: float) -> None:
    with running(code) as process:
        found = use(process.pid)
    assert found.state == ON and found.rho is not None and found.samples > 10
    assert low <= found.rho <= high


@pytest.mark.timing
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core is for the sampler")
def test_rho_of_a_process_that_hashes_half_of_its_time_is_in_between() -> None:
    with running(HASHING) as process:
        found = use(process.pid, 1.5)
    if not found.is_reliable:
        pytest.skip(f"{found.late:.0%} of the samples were late: run it on a quieter machine")
    assert 0.2 < (found.rho or 0.0) < 0.8


def test_a_process_that_becomes_a_python_is_read_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gil_meter, "RETRY_S", 0.0)
    words = ["sh", "-c", f"read line; exec '{sys.executable}' -c '{SLEEPING}'"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    shell = subprocess.Popen(words, text=True, **pipes)  # type: ignore[call-overload]
    try:
        meter = GilMeter()
        meter.update([shell.pid])
        before = meter.take()[shell.pid]
        assert before.state == UNREADABLE and before.why is not None
        assert before.why.kind == gil_location.NOT_PYTHON
        print(file=shell.stdin, flush=True)
        read_line(shell.stdout)
        meter.update([shell.pid])
        assert meter.take()[shell.pid].state == ON
    finally:
        shell.kill()
        shell.communicate(timeout=20)


def test_a_python_that_replaces_its_program_is_found_again_at_once() -> None:
    words = [interpreter("3.14"), "-c", SLEEPING]
    code = f"""
import os, sys
print(flush=True)
sys.stdin.readline()
os.execv({words[0]!r}, {words!r})
"""
    with running(code) as process, GilMeter() as meter:
        meter.update([process.pid])
        before = meter.take()[process.pid]
        print(file=process.stdin, flush=True)
        read_line(process.stdout)
        meter.update([process.pid])
        after = meter.take()[process.pid]
    assert (before.state, after.state) == (ON, ON)
    assert before.python != after.python is not None


def test_a_process_that_ends_has_no_rho_from_then_on() -> None:
    with running(SLEEPING) as process, GilMeter() as meter:
        meter.update([process.pid])
        process.kill()
        process.wait(20)
        assert wait_until(lambda: meter.take()[process.pid].state == UNREADABLE)
        meter.update([process.pid])
        why = meter.take()[process.pid].why
    assert why is not None
    assert (why.kind, why.message) == (gil_location.ENDED, f"pid {process.pid} has ended")


def test_late_samples_do_not_count_for_rho_but_make_it_unreliable() -> None:
    gils = Gils(addresses=(1,), version="3.11.7", free_threaded=False)
    half = gil_meter._Target(gils=gils, locked=3, samples=6, on_time=4, late=2)
    found = gil_meter._use(half, 1.0)
    assert (found.rho, found.samples, found.late) == (0.75, 6, 0.3333333333333333)
    assert not found.is_reliable
    late = gil_meter._use(replace(half, locked=0, on_time=0, late=6), 1.0)
    assert (late.rho, late.samples, late.late, late.is_reliable) == (None, 6, 1.0, False)


def test_sampling_uses_a_limited_share_of_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gil_meter, "BLOCK_S", 0.2)
    with running(SLEEPING) as process, GilMeter(every=0.0001) as meter:
        meter.update([process.pid])
        schedstat = Path(f"/proc/self/task/{meter._thread.native_id}/schedstat")
        assert wait_until(lambda: int(schedstat.read_text().split()[0]) > 5e6)
        time.sleep(gil_meter.BLOCK_S)  # until its cost is known
        meter.take()
        used_before = int(schedstat.read_text().split()[0])
        time.sleep(1)
        used = int(schedstat.read_text().split()[0]) - used_before
        samples = meter.take()[process.pid].samples
    assert used / 1e9 <= 3 * gil_meter.SHARE
    assert 0 < samples < 1000


def test_a_file_is_parsed_once_for_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(SLEEPING) as one, running(SLEEPING) as other:
        gil_location.find_runtime(one.pid)
        monkeypatch.setattr(gil_location, "_read_elf", None)
        assert gil_location.find_runtime(other.pid).pid == other.pid


def test_the_names_of_mapped_files_may_have_any_characters(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9\x0cx x x x x x"
    Path(os.fsdecode(name)).write_bytes(b"content")
    code = f"""
import mmap, time
with open({name!r}, "rb") as file: mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
print(flush=True)
time.sleep(60)
"""
    with running(code) as process:
        assert located(process.pid).addresses


@pytest.mark.skipif(not Path("/proc/2/maps").exists(), reason="no thread of the kernel is here")
@pytest.mark.skipif(os.getuid() != 0, reason="only root may read the memory of others")
def test_a_thread_of_the_kernel_is_no_python() -> None:
    with pytest.raises(Unreadable, match=r"pid 2 \(a thread of the kernel.* is not a Python") as no:
        gil_location.find_runtime(2)
    assert no.value.kind == gil_location.NOT_PYTHON


# What the kernel refuses


# The user nobody watches its own process, or pid 1, which is root's. The modules are imported while
# the process is still root.
WATCH_AS_NOBODY = """
import os, subprocess, sys, time
import elftools.elf.elffile
from offload.studies.watch.readings import Watch
from offload.errors import UserError
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
with subprocess.Popen(["sleep", "60"]) as own:
    for _ in range(1000):  # /proc hides a process until its program is loaded
        if os.access(f"/proc/{own.pid}/stat", os.R_OK):
            break
        time.sleep(0.01)
    try:
        Watch(own.pid if sys.argv[1] == "own" else 1, without_gil=True)
    except UserError as error:
        print(error.exit_code, str(error).replace(str(own.pid), "OWN"))
    finally:
        own.kill()
"""
# Runs a command with a /proc of its own, mounted with hidepid.
WITH_HIDEPID = [
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c"),
    'mount -t proc -o hidepid="$0" proc /proc && exec "$@"',
]


@pytest.mark.parametrize(
    ("hidepid", "whose", "output"),
    [
        (
            "1",
            "own",
            "3 the children of pid OWN cannot be found: /proc is mounted with hidepid=1: run "
            "this as root, or sudo mount -o remount,hidepid=2 /proc\n",
        ),
        ("2", "own", ""),
        *(
            (
                hidepid,
                "root's",
                "3 pid 1 is hidden from this user: /proc is mounted with hidepid: run watch as "
                "the user of the process, or as root\n",
            )
            for hidepid in ("1", "2")
        ),
    ],
)
def test_a_proc_that_hides_processes_is_reported(hidepid: str, whose: str, output: str) -> None:
    if os.getuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare")
    if subprocess.run([*WITH_HIDEPID, hidepid, "true"], capture_output=True, timeout=20).returncode:
        pytest.skip("/proc cannot be mounted here")
    words = [*WITH_HIDEPID, hidepid, sys.executable, "-c", WATCH_AS_NOBODY, whose]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", output)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_process_of_another_user_reports_whose_it_is() -> None:
    here, there = FORK.Pipe()

    def watch_as_nobody(pid: int) -> None:
        os.setuid(65534)
        try:
            Watch(pid)
        except MachineError as error:
            there.send((error.exit_code, str(error)))

    with running(SLEEPING) as process:
        watching = FORK.Process(target=watch_as_nobody, args=(process.pid,), daemon=True)
        watching.start()
        assert here.poll(20)
        code, message = here.recv()
        watching.join(20)
    assert (code, message) == (
        3,
        f"the memory of pid {process.pid} may not be read: it belongs to user root: "
        "run watch as that user or root",
    )


def test_a_refusal_names_the_setting_of_the_kernel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scope = tmp_path / "ptrace_scope"
    scope.write_text("1\n")
    monkeypatch.setattr(gil_location, "YAMA", scope)
    monkeypatch.setattr(os, "geteuid", os.getuid)
    if os.getuid() == 0:  # whom Yama does not refuse, but a container may
        assert "--cap-add=SYS_PTRACE" in str(gil_location.explain_refusal(os.getpid(), errno.EPERM))
        monkeypatch.setattr(os, "geteuid", lambda: 1)
        monkeypatch.setattr(gil_location.psutil, "Process", _process_of_user_1)  # type: ignore[attr-defined]
    found = gil_location.explain_refusal(os.getpid(), errno.EPERM)
    assert found.kind == gil_location.REFUSED
    assert "(kernel.yama.ptrace_scope is 1): sudo sysctl" in str(found)


class _process_of_user_1:
    def __init__(self, pid: int) -> None:
        pass

    def uids(self) -> object:
        class Ids:
            real = os.geteuid()

        return Ids


# The tree


def test_the_context_switches_are_those_of_all_threads() -> None:
    with running(RESTLESS_THREAD) as process, Watch(process.pid) as watch:
        [reading] = watch.readings(1)
    [found] = reading.processes
    assert (reading.tree.threads, reading.tree.processes) == (2, 1)
    assert 100 < (found.use.switches_voluntary or 0) < 3000


def test_the_name_of_a_process_cannot_control_a_terminal() -> None:
    with running(HOSTILE_NAME) as process, Watch(process.pid) as watch:
        [reading] = watch.readings(1)
    names = [watch.name, *(each.use.name for each in reading.processes)]
    assert names == [r"a\x1b[2J\nb"] * 2


def test_children_are_watched_as_they_come_and_go() -> None:
    """A busy machine lists the processes less often than once a second."""
    with running(PARENT) as process, Watch(process.pid) as watch:
        first, second = map(int, process.first_line.split())  # type: ignore[attr-defined]
        readings = watch.readings(30)

        def read_until(*expected: int) -> Reading:
            pids: set[int] = set()
            for reading in readings:
                pids = {each.use.pid for each in reading.processes}
                if pids == {process.pid, *expected}:
                    return reading
            pytest.fail(f"the last reading has {pids}, not {process.pid} with {expected}")

        begun = read_until(first, second)
        print(file=process.stdin, flush=True)  # it ends its first child
        read_line(process.stdout)
        lone = read_until(second)
        print(file=process.stdin, flush=True)  # it starts a third
        third = int(read_line(process.stdout))
        read_until(second, third)
        assert first not in watch._use._pss  # another process may get its pid
        print(file=process.stdin, flush=True)
        assert process.wait(20) == 0  # it ends its children
    [kept] = [each for each in begun.processes if each.use.pid == second]
    assert kept.use.cpu == pytest.approx(0, abs=0.1)
    [kept] = [each for each in lone.processes if each.use.pid == second]
    assert kept.gil.rho == pytest.approx(0, abs=0.1)
    assert all((each.use.pss_mib or 0) > 1 for each in lone.processes)


@pytest.mark.slow
def test_the_cpu_of_children_that_ended_counts() -> None:
    with running(SHORT_LIVED_CHILDREN) as process, Watch(process.pid) as watch:
        readings = list(watch.readings(3))
    own = [each.use.cpu or 0 for reading in readings for each in reading.processes[:1]]
    tree = [reading.tree.cpu or 0 for reading in readings]
    assert sum(tree) / 3 > 0.1 > sum(own) / 3


def test_what_watches_is_not_watched() -> None:
    """It holds its own GIL whenever it samples it, so that its rho would be 1."""
    with running(SLEEPING) as process, Watch(os.getppid(), without_gil=True) as watch:
        [reading] = watch.readings(1)
    pids = {each.use.pid for each in reading.processes}
    assert os.getppid() in pids and os.getpid() not in pids
    assert process.pid in pids
    with pytest.raises(UsageError, match="is offload watch itself: use the pid of another process"):
        Watch(os.getpid())


def test_a_thread_is_refused_with_its_process() -> None:
    with running(RESTLESS_THREAD) as process:
        [thread] = {each.id for each in psutil.Process(process.pid).threads()} - {process.pid}
        why = f"^{thread} is a thread of process {process.pid}: use offload watch {process.pid}$"
        with pytest.raises(UsageError, match=why):
            Watch(thread)


def test_a_tree_whose_root_is_no_python_is_watched_for_its_children() -> None:
    words = ["sh", "-c", f"'{sys.executable}' -c '{SLEEPING}' & wait"]
    shell = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
    try:
        read_line(shell.stdout)
        with Watch(shell.pid) as watch:
            [reading] = watch.readings(1)
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.communicate(timeout=20)
    states = [each.gil.state for each in reading.processes]
    assert states == [UNREADABLE, ON]
    assert reading.tree.rho == pytest.approx(0, abs=0.1)


def test_a_watched_process_is_not_stopped() -> None:
    """No signal, no tracer, and no state of a stopped process in 0.3 s of readings."""
    with running(BUSY) as process, GilMeter() as meter:
        meter.update([process.pid])
        status = Path(f"/proc/{process.pid}/status")
        for _ in range(30):
            text = status.read_text()
            assert "TracerPid:\t0\n" in text and "State:\tR" in text
            time.sleep(0.01)
        assert meter.take()[process.pid].samples > 10


# Requests


def test_a_response_that_is_late_is_a_lower_bound_until_it_comes(
    start: Callable[..., object],
) -> None:
    url = start("threads", "sleep_second_sync").url  # type: ignore[attr-defined]
    with Requester(url) as requester:
        assert wait_until(lambda: any(each.is_pending for each in requester.take()))
        responses: list[Response] = []
        assert wait_until(lambda: _collect(responses, requester.take()))
    [found] = responses
    assert (found.status, found.is_ok) == (200, True)
    assert 0.9 < found.seconds < 10


def _collect(responses: list[Response], found: Sequence[Response]) -> bool:
    responses += [each for each in found if not each.is_pending]
    return bool(responses)


def test_a_slow_response_is_not_replaced_by_a_fast_one_that_follows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next request is sent at once, and may end in the same period."""
    times = iter([1.9, 0.01, *[0.01] * 99])
    ended: list[Response] = []
    requester = Requester("http://127.0.0.1:9/")

    def send(_: float) -> Response:
        ended.append(Response(next(times), 200))
        return ended[-1]

    monkeypatch.setattr(response_time, "EVERY", 0.001)
    monkeypatch.setattr(requester, "_send", send)
    with requester:
        assert wait_until(lambda: len(ended) > 3)
        found = requester.take()
    assert [each.seconds for each in found[:2]] == [1.9, 0.01]
    reading = Reading(1e9, 1.0, TreeReading(0, None, None, None, None, None, None, None), (), found)
    assert reading.response is found[0]


def test_a_url_without_a_server_has_an_error_and_no_status() -> None:
    with Requester("http://127.0.0.1:9/") as requester:
        found: list[Response] = []
        assert wait_until(lambda: _collect(found, requester.take()))
    assert (found[0].status, found[0].error) == (None, "Connection refused")


@contextmanager
def serving(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Answer one request in a thread; yield the URL."""

    def serve() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):  # the requester has closed the connection
            connection.recv(1 << 16)
            answer(connection)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        thread.join(20)
        assert not thread.is_alive()


def test_a_response_without_end_is_pending_and_is_not_kept_in_memory() -> None:
    part, sent = bytes(1 << 20), list[int]()

    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(part)
            sent.append(len(part))

    before = psutil.Process().memory_info().rss
    with serving(answer) as url, Requester(url) as requester:
        assert wait_until(lambda: len(sent) > 300)
        [found] = requester.take()
        grown = psutil.Process().memory_info().rss - before
    assert found.is_pending
    assert grown < 100 << 20


def test_a_response_whose_end_is_missing_has_failed() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"
    found: list[Response] = []
    with serving(lambda connection: connection.sendall(head)) as url, Requester(url) as requester:
        assert wait_until(lambda: _collect(found, requester.take()))
    assert (found[0].status, found[0].is_ok) == (None, False)
    assert found[0].error is not None and "IncompleteRead" in found[0].error


def test_the_query_and_the_credentials_of_a_url_are_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)
        place = f"127.0.0.1:{listening.getsockname()[1]}"
        with Requester(f"http://me:secret@{place}/quote?text=why?"):
            connection, _ = listening.accept()
            with connection:
                request = connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert request.startswith(b"GET /quote?text=why? HTTP/1.1\r\n")
    assert f"\r\nHost: {place}\r\n".encode() in request
    assert b"\r\nAuthorization: Basic bWU6c2VjcmV0\r\n" in request
