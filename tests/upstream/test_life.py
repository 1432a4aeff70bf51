"""An upstream runs while a process holds it, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from offload.errors import StartError, StorageError, UsageError
from offload.upstream import Upstream, find, hold, running
from offload.upstream import nginx as _nginx
from tests import ROOT
from tests.commands import free_port
from tests.upstream.observed import NO_NGINX, is_free, served, until
from tests.waiting import is_running, read_line

HOLDER = """
import time
from offload import upstream
h = upstream.hold()
print(h.upstream.pid, flush=True)
{}"""
Users = tuple[Upstream, "subprocess.Popen[str]"]
needs_nginx = pytest.mark.skipif(_nginx.find() is None, reason=NO_NGINX)


pytestmark = pytest.mark.server


@pytest.fixture
def ports() -> dict[str, float]:
    """Options for ports that are free now: others may take the usual ones meanwhile."""
    return {"port": free_port(), "https_port": free_port()}


def _holder(then: str = "time.sleep(60)") -> tuple[subprocess.Popen[str], int]:
    """Start a process that holds; return it and the upstream's pid."""
    command = [sys.executable, "-c", HOLDER.format(then.strip())]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        return process, int(read_line(process.stdout))


def test_closing_a_holding_ends_everything() -> None:
    with hold() as holding:
        assert find(holding.upstream.https) == holding.upstream
        own = psutil.Process(holding.upstream.pid)
        processes = [own, *own.children(recursive=True)]
    until(lambda: not any(map(is_running, processes)))
    assert find(holding.upstream.https) is None


def test_two_holdings_have_an_upstream_each() -> None:
    with hold() as first:
        with hold() as second:
            assert first.upstream.pid != second.upstream.pid
            assert find(second.upstream.https) == second.upstream
        assert find(first.upstream.https) == first.upstream


def test_held_upstream_is_no_child_of_its_holder() -> None:
    process, pid = _holder()
    try:
        assert process.pid not in [parent.pid for parent in psutil.Process(pid).parents()]
        assert os.getsid(process.pid) != os.getsid(pid)
    finally:
        process.kill()
        process.wait(10)


def test_four_that_start_at_once_have_one_certificate() -> None:
    with ThreadPoolExecutor(4) as threads, ExitStack() as stack:
        held = [stack.enter_context(each) for each in threads.map(lambda _: hold(), range(4))]
        assert [find(each.upstream.https) for each in held] == [each.upstream for each in held]


def test_kill_9_of_the_holder_ends_it() -> None:
    process, pid = _holder()
    assert is_running(pid)
    process.kill()
    process.wait(10)
    until(lambda: not is_running(pid))
    assert not is_running(pid)


@pytest.mark.parametrize(("inherits", "survives"), [("h.inherit();", True), ("", False)])
def test_only_an_inherited_holding_survives_an_exec(inherits: str, survives: bool) -> None:
    command = "[sys.executable, '-c', 'import time; time.sleep(60)']"
    process, pid = _holder(f"{inherits} import os, sys; os.execv(sys.executable, {command})")
    try:
        if survives:
            until(lambda: "upstream" not in " ".join(psutil.Process(process.pid).cmdline()))
            assert is_running(pid)
        else:
            until(lambda: not is_running(pid))
    finally:
        process.kill()
        process.wait(10)
    until(lambda: not is_running(pid))


@needs_nginx
def test_kill_9_of_the_upstream_leaves_no_nginx() -> None:
    with hold() as holding:
        nginx = psutil.Process(holding.upstream.pid).children(recursive=True)
        assert len(nginx) >= 2
        os.kill(holding.upstream.pid, signal.SIGKILL)
        until(lambda: not any(map(is_running, nginx)))
        assert find(holding.upstream.https) is None


def test_another_server_with_its_status_is_not_believed(tmp_path: Path) -> None:
    """Its certificate is not ours: any user of this machine can listen on the usual port."""
    with hold() as holding, pytest.MonkeyPatch.context() as patch:
        patch.setenv("UPSTREAM_FOLDER", str(tmp_path / "other"))
        with hold() as other:
            assert find(holding.upstream.https) is None
            assert find(other.upstream.https) == other.upstream


@needs_nginx
@pytest.mark.skipif(os.geteuid() != 0, reason="other users cannot change the user of a process")
def test_the_workers_of_nginx_are_not_root(folder: Path) -> None:
    with hold() as holding:
        assert holding.upstream.kind == "nginx"
        (master,) = psutil.Process(holding.upstream.pid).children()
        workers = master.children()
        assert len(workers) == _nginx.WORKERS
        assert 0 not in {number for worker in workers for number in worker.uids()}
        words = master.cmdline()
        temporary = Path(words[words.index("-p") + 1])
        assert (temporary / "nginx.conf").exists()
    assert not temporary.exists()
    assert (folder / "nginx.log").exists()


@needs_nginx
def test_nginx_that_dies_ends_the_upstream() -> None:
    with served() as (upstream, process):
        (master,) = psutil.Process(upstream.pid).children()
        master.terminate()
        assert process.wait(10) == 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_ends_the_one_that_a_user_started(
    number: signal.Signals, ports: dict[str, float]
) -> None:
    with served(ports) as (upstream, process):
        children = psutil.Process(upstream.pid).children(recursive=True)
        process.send_signal(number)
        assert process.wait(10) == 0
    assert not any(map(is_running, children))
    assert is_free(upstream.http)
    assert is_free(upstream.https)


@pytest.fixture
def users(ports: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> Iterator[Users]:
    """The upstream of a user with a latency of 0.01 s, which commands find."""
    with served({**ports, "latency_s": 0.01}) as (upstream, process):
        monkeypatch.setenv("UPSTREAM", upstream.https)
        yield upstream, process


def test_ctrl_c_while_it_is_held_prints_nothing(users: Users) -> None:
    upstream, process = users
    with hold() as holding:
        assert upstream == holding.upstream
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=10)[1].splitlines()
        assert process.returncode == 0
        assert said == [
            f"CA certificate: {upstream.ca}; Ctrl-C stops the upstream",
            f"Other commands find it with UPSTREAM={upstream.https}",
        ]


def test_the_one_that_a_user_started_outlives_its_holders(users: Users) -> None:
    upstream, process = users
    with hold() as holding:
        assert upstream == holding.upstream
    assert upstream == running()
    assert process.poll() is None


def test_second_one_is_refused_in_one_line(users: Users) -> None:
    command = [sys.executable, "-P", "-m", "offload.upstream"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 4
    assert done.stderr.startswith(f"an upstream is already running at {users[0].http}: use it, or ")
    assert done.stderr.count("\n") == 1


def test_busy_ports_are_replaced_by_free_ones() -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with served({"port": port, "https_port": port}) as (upstream, _):
            ports = {url.rpartition(":")[2] for url in (upstream.http, upstream.https)}
    assert len(ports - {str(port)}) == 2


def test_wanted_ports_are_taken_when_free(ports: dict[str, float]) -> None:
    with served(ports) as (upstream, _):
        urls = (upstream.http, upstream.https)
    assert [url.rpartition(":")[2] for url in urls] == [*map(str, ports.values())]


def test_another_latency_than_that_of_the_running_one_is_refused(users: Users) -> None:
    with pytest.raises(UsageError, match=r"has a latency of 0\.01 s, not 0: stop it \(pid "):
        hold(0.0)
    with hold() as any_latency:
        assert any_latency.upstream == users[0]


def test_latencies_can_follow_each_other_at_once() -> None:
    for latency in (0.01, 0.02, 0.01):
        with hold(latency) as holding:
            assert latency == holding.upstream.latency_s


def test_upstream_that_cannot_start_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit('no such luck')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(StartError, match=r"^the upstream did not start: no message .log: .*"):
        hold()


def test_a_file_at_the_place_of_the_folder_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("UPSTREAM_FOLDER", str(tmp_path / "file"))
    with pytest.raises(
        StorageError, match=r"file: File exists: check permissions and disk space, or set U"
    ):
        hold()


def test_a_named_upstream_that_does_not_respond_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for named in (f"https://127.0.0.1:{free_port()}", "https://[x"):
        monkeypatch.setenv("UPSTREAM", named)
        with pytest.raises(StartError, match=r"^no upstream responds at UPSTREAM=https://"):
            hold()


def test_a_holding_ends_though_a_forked_child_has_its_descriptors() -> None:
    process, pid = _holder("import os\nif os.fork():\n    h.close()\ntime.sleep(60)")
    try:
        until(lambda: not is_running(pid))
        assert len(psutil.Process(process.pid).children()) == 1  # it has the descriptors
    finally:
        for each in [*psutil.Process(process.pid).children(), process]:
            each.kill()
        process.wait(10)
