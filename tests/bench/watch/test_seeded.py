"""`offload watch` names what limits gunicorn, uvicorn and granian, started as their users do."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from offload.causes.execution import CPU_SATURATED, GIL_SATURATED, LOOP_BLOCKED, THREAD_LIMIT
from offload.causes.machine import CPU_QUOTA, LISTEN_QUEUE
from offload.causes.pools import DEFAULT_EXECUTOR
from offload.causes.processes import UNEVEN_PROCESSES
from offload.engine import who
from tests import ROOT
from tests.commands import FAB, free_port
from tests.installed import lacks
from tests.waiting import wait_until

pytest.importorskip("elftools", reason="make setup installs pyelftools")
pytest.importorskip("fastapi", reason=lacks("fastapi"))
pytest.importorskip("flask", reason=lacks("flask"))

SITES = Path(__file__).with_name("sites")
UVICORN = ("uvicorn", "shop:app", "--log-level", "warning", "--port")
GRANIAN = ("granian", "--interface", "asgi", "shop:app", "--no-ws", "--port")
GUNICORN = ("gunicorn", "desk:app", "--threads", "4", "--bind")
WAITRESS = ("waitress-serve", "--threads=4", "--listen=127.0.0.1:{port}", "desk:app")
GUNICORN_ASGI = ("gunicorn", "shop:app", "-k", "uvicorn_worker.UvicornWorker", "--bind")
SHORT_QUEUE = ("gunicorn", "desk:app", "-k", "sync", "--backlog", "4", "--bind")
WORKERS = ("gunicorn", "desk:app", "--workers", "2", "--threads", "1", "-k", "gthread", "--bind")
SECONDS = 8
# Without capabilities, root is to the kernel an ordinary user.
UNPRIVILEGED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
SEEN = ("causes", "loops", "pools", "gil_holders", "not_seen", "who", "who_unavailable", "tree")
pytestmark = [
    pytest.mark.server,
    pytest.mark.suites,
    pytest.mark.skipif(who.find_py_spy() is None, reason=lacks("py_spy")),
]


@contextmanager
def serving(argv: Sequence[str], user: Sequence[str] = ()) -> Iterator[tuple[int, int]]:
    """Start a server as its user does; yield its pid and its port."""
    name, *options = argv
    module = name.removesuffix("-serve")
    pytest.importorskip(module, reason=lacks(module))
    port = free_port()
    if options[-1].startswith("--"):
        options.append(f"127.0.0.1:{port}" if options[-1] == "--bind" else str(port))
    options = [option.format(port=port) for option in options]
    program = str(Path(sys.executable).with_name(name))
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    server = subprocess.Popen(
        [*user, program, *options],
        cwd=SITES,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert wait_until(lambda: _answers(port), 60), f"{argv} did not start"
        yield server.pid, port
    finally:
        server.terminate()
        with suppress(subprocess.TimeoutExpired):
            server.wait(10)
        with suppress(ProcessLookupError):
            os.killpg(server.pid, 9)
        server.wait(20)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with suppress(OSError, http.client.HTTPException), closing(connection):
        connection.request("GET", "/nothing")
        return connection.getresponse().read() != b""
    return False


class Users:
    """Users who each send a request after another, from `__enter__` to `__exit__`."""

    def __init__(self, port: int, path: str, count: int) -> None:
        self._port, self._path, self.answers = port, path, 0
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._send) for _ in range(count)]

    def __enter__(self) -> Users:
        for thread in self._threads:
            thread.start()
        assert wait_until(lambda: self.answers), "no answer"
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(10)

    def _send(self) -> None:
        while not self._stopped.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
            with suppress(OSError, http.client.HTTPException):
                connection.request("GET", self._path)
                connection.getresponse().read()
                self.answers += 1
            connection.close()


def watch(pid: int, user: Sequence[str] = (), seconds: int = SECONDS) -> dict[str, Any]:
    """Return the summary of `offload watch`."""
    said = subprocess.run(
        [*user, FAB, f"watch:{pid},seconds={seconds},format=json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert said.returncode == 0, said.stderr
    summary: dict[str, Any] = json.loads(said.stdout.splitlines()[-1])
    return summary


class KeptUsers(Users):
    """Users who keep their connections: so many to each of the two processes."""

    def __init__(self, port: int, counts: Sequence[int]) -> None:
        super().__init__(port, "/wait", 0)
        self._found: dict[int, list[http.client.HTTPConnection]] = {}
        assert wait_until(lambda: self._connect(port, counts), 60)
        most, least = sorted(self._found.values(), key=len, reverse=True)
        kept = [*most[: counts[0]], *least[: counts[1]]]
        for connection in {*most, *least} - {*kept}:
            connection.close()
        self._threads = [threading.Thread(target=self._send_on, args=(each,)) for each in kept]

    def _connect(self, port: int, counts: Sequence[int]) -> bool:
        """Open another connection; return whether there are enough to each process."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/pid")
        pid = json.loads(connection.getresponse().read())["pid"]
        self._found.setdefault(pid, []).append(connection)
        sizes = sorted(map(len, self._found.values()), reverse=True)
        return len(sizes) == 2 and sizes[0] >= counts[0] and sizes[1] >= counts[1]

    def _send_on(self, connection: http.client.HTTPConnection) -> None:
        with suppress(OSError, http.client.HTTPException), closing(connection):
            while not self._stopped.is_set():
                connection.request("GET", self._path)
                connection.getresponse().read()
                self.answers += 1


@pytest.mark.parametrize(("counts", "is_named"), [((6, 1), True), ((3, 3), False)])
def test_processes_that_share_connections_unevenly_are_named(
    counts: Sequence[int], is_named: bool
) -> None:
    with serving(WORKERS) as (pid, port), KeptUsers(port, counts):
        summary = watch(pid, seconds=20)
    assert (UNEVEN_PROCESSES in kinds(summary)) is is_named, summary["causes"]


@contextmanager
def limited(quota_us: int) -> Iterator[Sequence[str]]:
    """Make a control group with a CPU quota (version 1 or 2); yield a command that enters it."""
    root = Path("/sys/fs/cgroup")
    is_v2 = (root / "cgroup.controllers").exists()
    group = root / ("" if is_v2 else "cpu") / f"watch-test-{os.getpid()}"
    file, text = ("cpu.max", f"{quota_us} 100000") if is_v2 else ("cpu.cfs_quota_us", str(quota_us))
    try:
        group.mkdir()
        (group / file).write_text(text)
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(f"no control group can be limited here: {error}")
    try:
        yield ("sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh")
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


@pytest.mark.parametrize(("quota_us", "is_named"), [(10_000, True), (400_000, False)])
def test_a_cpu_quota_that_stops_the_server_is_named(quota_us: int, is_named: bool) -> None:
    with (
        limited(quota_us) as enter,
        serving(GUNICORN, enter) as (pid, port),
        Users(port, "/pid", 2),
    ):
        summary = watch(pid)
    assert (CPU_QUOTA in kinds(summary)) is is_named, summary["causes"]


def kinds(summary: dict[str, Any]) -> list[str]:
    return [cause["kind"] for cause in summary["causes"]]


@pytest.mark.parametrize(
    ("argv", "path", "users", "kind", "says"),
    [
        (UVICORN, "/receipt", 8, LOOP_BLOCKED, "print_receipt (shop.py:15, route) blocks the "),
        (GRANIAN, "/receipt", 8, LOOP_BLOCKED, "print_receipt (shop.py:15, route) blocks the "),
        (GUNICORN_ASGI, "/receipt", 8, LOOP_BLOCKED, "print_receipt (shop.py:15, route) blocks"),
        (UVICORN, "/invoice", 60, THREAD_LIMIT, "all 40 threads of anyio in pid "),
        (GRANIAN, "/invoice", 60, THREAD_LIMIT, "all 40 threads of anyio in pid "),
        (GUNICORN, "/wait", 12, THREAD_LIMIT, "all 4 threads of gunicorn in pid "),
        (WAITRESS, "/wait", 12, THREAD_LIMIT, "all 4 threads of waitress in pid "),
        (SHORT_QUEUE, "/wait", 30, LISTEN_QUEUE, "the listen queue of 4 was full and dropped "),
        (UVICORN, "/lookup", 60, DEFAULT_EXECUTOR, " threads of asyncio's default executor"),
    ],
)
def test_the_cause_is_named(
    argv: Sequence[str], path: str, users: int, kind: str, says: str
) -> None:
    with serving(argv) as (pid, port), Users(port, path, users):
        summary = watch(pid)
    assert kind in kinds(summary), {key: summary[key] for key in SEEN}
    [cause] = [each for each in summary["causes"] if each["kind"] == kind]
    assert says in cause["sentence"][0].lower() + cause["sentence"][1:]


def test_an_ordinary_user_gets_the_same_answer_for_his_own_server() -> None:
    with serving(UVICORN, UNPRIVILEGED) as (pid, port), Users(port, "/receipt", 8):
        summary = watch(pid, UNPRIVILEGED)
    assert kinds(summary) == [LOOP_BLOCKED], {key: summary[key] for key in SEEN}
    assert "print_receipt (shop.py:15, route)" in summary["causes"][0]["sentence"]
    assert summary["not_seen"] == []


def test_the_line_that_holds_the_gil_is_named() -> None:
    with serving(GUNICORN) as (pid, port), Users(port, "/score", 4):
        summary = watch(pid)
    [holder, *_] = summary["gil_holders"]
    assert holder["name"] == "ThreadPoolExecutor-0"
    assert holder["frame"]["file"] == "desk.py"
    assert holder["frame"]["function"] == "rank"
    assert holder["share"] > 0.5
    if summary["tree"]["cpu"]["mean"] < 0.8:
        pytest.skip("no core is free: a thread waits for it while it holds the GIL")
    [cause] = [each for each in summary["causes"] if each["kind"] == GIL_SATURATED]
    assert "mostly by 4 threads ThreadPoolExecutor-0 at rank (desk.py:" in cause["sentence"]


@pytest.mark.parametrize(
    ("argv", "path", "users"),
    [
        (UVICORN, "/receipt/awaited", 8),
        (GRANIAN, "/receipt/awaited", 8),
        (UVICORN, "/invoice", 10),
        (UVICORN, "/lookup", 3),
        (UVICORN, "/label", 1),
        (GUNICORN, "/wait", 2),
        (WAITRESS, "/wait", 3),
        (SHORT_QUEUE, "/wait", 3),
    ],
)
def test_a_healthy_server_is_not_accused(argv: Sequence[str], path: str, users: int) -> None:
    with serving(argv) as (pid, port), Users(port, path, users):
        summary = watch(pid)
    assert not {*kinds(summary)} - {GIL_SATURATED, CPU_SATURATED}, summary["causes"]
