"""A process that calls a task survives it or reports how it ended, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from offload.engine import calling_process
from offload.engine.calling_process import CallingProcess
from offload.errors import MachineError, RunError, StartError, UsageError
from offload.registry import places
from offload.serving.metrics.call_statistics import LoopClock
from offload.studies.advise import probe_measurement
from offload.studies.gil.direct_calls import call, direct
from tests import ROOT
from tests.waiting import is_running, read_line, wait_until

pytestmark = pytest.mark.server

PROBE = "offload.serving.task_probe"
SHOP = """
import asyncio, builtins, hashlib, json, multiprocessing, os, signal, sys, tempfile, threading, time
DATA = bytes(8 << 20)
def reads(): return sys.stdin.read()
def prints(): print("{}"); return "x"
def exits(): os._exit(3)
def kills(): os.kill(os.getpid(), signal.SIGKILL)
def kills_its_group(): os.killpg(0, signal.SIGKILL)
def ends_workers():
    if multiprocessing.parent_process() is not None: os._exit(3)
def kills_workers():
    if multiprocessing.parent_process() is not None: os.kill(os.getpid(), signal.SIGKILL)
def writes():
    for number in range(3, 12):
        try: os.write(number, b"7\\njunk\\n")
        except OSError: pass
def forks():
    if not os.fork():
        time.sleep(25)
        os._exit(0)
CONTENT, PATH = open("shop.py").read(), os.environ["PATH"]
def moves(): os.chdir("/"); os.environ.clear()
def stops_the_clock(): time.monotonic = lambda: 0.0
def removes_the_clock(): time.monotonic = None
def removes_its_folder():
    os.chdir(tempfile.mkdtemp())
    os.rmdir(os.getcwd())
def replaces_print():
    builtins.print = json.dumps = lambda *arguments, **options: None
PREPARED, LOOPS = [], []
def prepares():
    if not PREPARED: time.sleep(1.5)
    PREPARED.append(1)
async def belongs_to_a_loop():
    LOOPS.append(asyncio.get_running_loop())
    if LOOPS[0] is not LOOPS[-1]: raise RuntimeError("attached to a different loop")
async def blocks_its_loop(): time.sleep(0.01)
async def awaits(): await asyncio.sleep(0.01)
async def computes_in_a_thread(): await asyncio.to_thread(hashlib.sha256, DATA)
def computes():
    while True: pass
def waits_in_threads():
    if threading.current_thread() is not threading.main_thread(): time.sleep(25)
"""


OWN_LOOP = """
import asyncio, warnings
class Loop(asyncio.SelectorEventLoop): price = 42
warnings.simplefilter("ignore", DeprecationWarning)
class Policy(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self): return Loop()
asyncio.set_event_loop_policy(Policy())
async def needs_it(): return str(asyncio.get_running_loop().price)
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with shop.py."""
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of temporary files for one test; its path is short enough for a socket's."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@contextmanager
def calling(task: str, ready_s: float = 20.0) -> Iterator[CallingProcess]:
    with calling_process.start(
        PROBE, task, python=None, path=None, environment={}, ready_s=ready_s
    ) as running:
        yield running


def measured(running: CallingProcess, kind: str, count: int = 1, s: float = 15.0) -> dict[str, Any]:
    return running.request(json.dumps({"kind": kind, "count": count, "seconds": 0.0}), s)


@pytest.mark.usefixtures("shop")
def test_a_task_that_reads_stdin_reads_nothing() -> None:
    with calling("shop:reads") as running:
        for _ in range(2):
            found = measured(running, "first")
            assert (found["failed"], found["checksums"]) == (0, [zlib.crc32(b"")])


@pytest.mark.usefixtures("shop")
def test_what_a_task_prints_is_no_result() -> None:
    with calling("shop:prints") as running:
        for kind in ("first", "threads", "processes"):
            assert measured(running, kind, 2)["failed"] == 0


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("task", "how"),
    [
        ("exits", r"calling shop:exits ended the process \(exit code 3\)"),
        ("kills", r"calling shop:kills ended the process \(SIGKILL\)"),
        ("kills_its_group", r"calling shop:kills_its_group ended the process \(SIGKILL\)"),
        ("writes", "shop:writes wrote to the pipe of its calling process"),
    ],
)
def test_a_process_that_a_task_ends_reports_how(task: str, how: str, temporary: Path) -> None:
    with calling(f"shop:{task}") as running, pytest.raises(RunError, match=how) as raised:
        probe_measurement.request(running, "first", 1, 0.0)
    assert raised.value.exit_code == 5
    assert not [*temporary.iterdir()]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("task", "how"), [("ends_workers", "exit code 3"), ("kills_workers", "signal 9, Killed")]
)
def test_a_worker_that_a_task_ends_is_reported(task: str, how: str) -> None:
    message = rf"calling shop:{task} ended a worker process \({how}\): fix the function first"
    with calling(f"shop:{task}") as running:
        assert measured(running, "first")["failed"] == 0
        with pytest.raises(RunError, match=message):
            probe_measurement.request(running, "processes", 2, 0.1)
        assert measured(running, "threads", 2)["failed"] == 0  # the process goes on
    with (
        direct(f"shop:{task}", None, None, {}) as running,
        pytest.raises(StartError, match=message),
    ):
        call(running, "processes", 2, 0.1)


@pytest.mark.usefixtures("shop")
def test_a_process_that_a_task_forked_ends_and_nobody_waits_for_it() -> None:
    with calling("shop:forks") as running:
        assert measured(running, "first")["done"] == 1
        family = psutil.Process(running.pid).children(recursive=True)
        began = time.monotonic()
    assert time.monotonic() - began < 15
    assert family
    assert wait_until(lambda: not any(map(is_running, family)))  # SIGKILL takes a moment


@pytest.mark.usefixtures("shop")
def test_a_task_may_change_the_folder_and_the_environment() -> None:
    with calling("shop:moves") as running:
        assert measured(running, "first")["failed"] == 0
        assert measured(running, "processes", 2)["failed"] == 0


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    "task",
    [
        "removes_the_clock",
        *(
            pytest.param(task, marks=pytest.mark.slow)
            for task in ("stops_the_clock", "removes_its_folder")
        ),
    ],
)
def test_a_task_may_replace_the_clock_and_remove_its_folder(task: str) -> None:
    with calling(f"shop:{task}") as running:
        for kind in ("first", "threads", "processes"):
            found = measured(running, kind, 2)
            assert found.get("failed", 0) == 0


def test_a_task_may_replace_the_clock_by_its_import(shop: Path) -> None:
    (shop / "frozen.py").write_text("import time\ntime.monotonic = None\ndef quote(): pass")
    with calling("frozen:quote") as running:
        for kind in ("first", "threads", "processes"):
            assert measured(running, kind, 2).get("failed", 0) == 0


def test_a_task_may_be_beside_modules_called_as_any_other(shop: Path) -> None:
    names = {name for name in sys.stdlib_module_names if name[0] != "_"}
    for name in {"errors", "offload", "pipepool", "tasks", *names} - {*sys.builtin_module_names}:
        (shop / f"{name}.py").write_text(f"OWN = {len(name)}")
    (shop / "own.py").write_text(
        "import errors, queue, statistics, tasks\n"
        "def quote(): return str(errors.OWN + queue.OWN + statistics.OWN + tasks.OWN)"
    )
    with calling("own:quote") as running:
        for kind in ("first", "threads", "processes"):
            found = measured(running, kind, 2)
            assert found.get("failed", 0) == 0


@pytest.mark.usefixtures("shop")
def test_a_process_that_must_be_ended_leaves_no_file(temporary: Path) -> None:
    with calling("shop:waits_in_threads") as running:
        measured(running, "processes", 2)
        with pytest.raises(StartError, match="did not end within 1 s"):
            measured(running, "threads", 2, s=1.0)
    assert not [*temporary.iterdir()]


@contextmanager
def computing(shop: Path) -> Iterator[tuple[subprocess.Popen[bytes], psutil.Process]]:
    """Start a parent whose child computes in a task, and yield both."""
    code = (
        "import sys\nfrom tests.bench.target.test_calling_process import calling, measured\n"
        "with calling('shop:computes') as running:\n"
        "    print(running.pid, flush=True)\n"
        "    measured(running, 'first', s=60.0)\n"
    )
    path = {"PYTHONPATH": os.pathsep.join([str(ROOT), *places.import_path().values()])}
    parent = subprocess.Popen(
        [sys.executable, "-c", code], cwd=shop, env=os.environ | path, stdout=subprocess.PIPE
    )
    try:
        child = psutil.Process(int(read_line(parent.stdout)))
        assert wait_until(lambda: child.cpu_times().user > 0.5)
        yield parent, child
    finally:
        parent.kill()
        parent.communicate(timeout=20)


@pytest.mark.usefixtures("temporary")  # a parent that is killed leaves files there
def test_it_ends_with_its_parent_while_the_task_computes(shop: Path) -> None:
    with computing(shop) as (parent, child):
        parent.kill()
        parent.communicate(timeout=20)
        ended = wait_until(lambda: not is_running(child), 5)
        if not ended:
            child.kill()
        assert ended


def test_the_files_of_a_killed_parent_are_removed_by_the_next_one(
    shop: Path, temporary: Path
) -> None:
    with computing(shop) as (parent, _):
        parent.kill()
        parent.communicate(timeout=20)
    [stale] = temporary.iterdir()
    assert f"-{parent.pid}-" in stale.name
    foreign = [temporary / f"calls-{os.getpid()}-own", temporary / "calls-list"]
    for folder in foreign:
        folder.mkdir()
    with calling("shop:prints") as running:
        assert measured(running, "first")["failed"] == 0
        assert not stale.exists()
    assert {*temporary.iterdir()} == {*foreign}


@pytest.mark.parametrize(
    ("code", "ready_s", "how"),
    [
        (
            "os.kill(os.getpid(), 9)",
            20.0,
            r"importing shop:quote ended the process \(SIGKILL\)",
        ),
        pytest.param(
            "time.sleep(60)",
            8.0,
            "importing shop:quote did not end within 8 s",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_import_that_does_not_end_well_is_named_with_the_last_printed_line(
    code: str, ready_s: float, how: str, shop: Path
) -> None:
    lines = ["import os, sys, time", "print('connecting', file=sys.stderr, flush=True)", code]
    (shop / "shop.py").write_text("\n".join(lines))
    fix = "import it in python to find the cause"
    expected = f"^{how}; its last line is 'connecting': {fix}$"
    with pytest.raises(StartError, match=expected), calling("shop:quote", ready_s):
        pass


def test_an_error_of_the_command_line_stays_one(shop: Path) -> None:
    with pytest.raises(UsageError, match=r"no 'quotes' in shop: the file lists them all"):
        (shop / "shop.py").write_text(SHOP + "\n".join(f"def own_{n}(): pass" for n in range(9)))
        with calling("shop:quotes"):
            pass


@pytest.mark.usefixtures("shop")
def test_the_first_call_of_each_process_does_not_count() -> None:
    with calling("shop:prepares") as running:
        assert measured(running, "first")["wall_s"] > 1
        assert measured(running, "alone")["wall_s"] < 1
        assert measured(running, "processes", 2)["wall_s"] < 1


@pytest.mark.usefixtures("shop")
def test_a_coroutine_may_belong_to_one_event_loop() -> None:
    with calling("shop:belongs_to_a_loop") as running:
        for kind, count in (("first", 1), ("alone", 1), ("loop", 5), ("loop", 5)):
            assert measured(running, kind, count)["failed"] == 0
        assert measured(running, "threads", 2)["failed"] > 0


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(("task", "most"), [("blocks_its_loop", 100), ("awaits", 2000)])
def test_the_rate_on_one_loop_is_not_too_high_although_users_start_together(
    task: str, most: int
) -> None:
    """Calls that start together wait less for the loop at first. This must not raise the rate."""
    with calling(f"shop:{task}") as running:
        command = json.dumps({"kind": "loop", "count": 20, "seconds": 0.25})
        rate = running.request(command, 15.0)["rate"]
    assert most / 4 < rate <= most


@pytest.mark.timing
@pytest.mark.usefixtures("shop")
def test_the_time_on_the_loop_excludes_what_a_coroutine_awaits() -> None:
    found = {}
    for task in ("blocks_its_loop", "awaits", "computes_in_a_thread"):
        with calling(f"shop:{task}") as running:
            command = json.dumps({"kind": "loop", "count": 10, "seconds": 0.25})
            found[task] = running.request(command, 15.0)
    assert 0.01 <= found["blocks_its_loop"]["on_loop_s"] < 0.03
    assert found["awaits"]["on_loop_s"] < 0.003
    assert found["computes_in_a_thread"]["on_loop_s"] < found["computes_in_a_thread"]["cpu_s"] / 3


def test_a_task_may_choose_its_event_loop(shop: Path) -> None:
    (shop / "own_loop.py").write_text(OWN_LOOP)
    with calling("own_loop:needs_it") as running:
        found = [measured(running, kind, 2)["failed"] for kind in ("first", "alone", "loop")]
    assert found == [0, 0, 0]


def test_the_time_on_a_loop_without_a_selector_is_unknown() -> None:
    """Such as that of uvloop."""
    assert not LoopClock(asyncio.AbstractEventLoop()).is_known


@pytest.mark.usefixtures("shop")
def test_a_task_may_replace_print() -> None:
    with calling("shop:replaces_print") as running:
        assert measured(running, "first")["failed"] == 0
        assert measured(running, "processes", 2)["failed"] == 0


@pytest.mark.usefixtures("shop")
def test_without_a_temporary_folder_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    message = "no temporary file can be written"
    with pytest.raises(MachineError, match=message), calling("shop:reads"):
        pass
