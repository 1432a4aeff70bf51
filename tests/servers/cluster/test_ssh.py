"""The server dask with workers that it starts by SSH, on a real sshd on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paramiko
import psutil
import pytest

from offload import ssh
from offload.engine import server
from offload.errors import MachineError
from offload.registry import places
from tests.http_clients import get, in_threads
from tests.installed import require
from tests.servers.cluster import sshd
from tests.servers.cluster.conftest import TASKS
from tests.servers.lifecycle.command_line import begin, wait_for_end
from tests.waiting import is_running, wait_until

pytestmark = [
    pytest.mark.server,
    pytest.mark.slow,
    pytest.mark.skipif(sshd.PROGRAM is None, reason="sshd is missing: apt install openssh-server"),
]


END_ON_ONE_THREAD = """
import asyncio
from concurrent.futures import ThreadPoolExecutor
from offload.serving.pools.dask_cluster import ssh_workers

async def main():
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    async with ssh_workers.start(["one"], 1, 0):
        await asyncio.sleep(0)  # a thread begins to wait for the end of the workers

asyncio.run(main())
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Use the home folder of an sshd."""
    with sshd.running(tmp_path) as found:
        monkeypatch.setenv("HOME", str(found))
        yield found


def test_workers_on_two_hosts_run_tasks(home: Path, start: Any) -> None:
    running = start("dask", f"{TASKS}:pid", ssh="one+two", workers=3)
    answers = in_threads(12, lambda: get(running.url))
    pids = {int(body) for status, body in answers if status == 200}
    assert len(answers) == 12
    assert len(pids) >= 2
    server = psutil.Process(running.process.pid)
    assert not {child.pid for child in server.children(recursive=True)} & pids


def test_a_login_shell_may_print_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Any
) -> None:
    greeting = 'ForceCommand echo welcome; eval "$SSH_ORIGINAL_COMMAND"\n'
    with sshd.running(tmp_path, greeting) as home:
        monkeypatch.setenv("HOME", str(home))
        running = start("dask", f"{TASKS}:pid", ssh="one", workers=1)
        try:
            assert get(running.url)[0] == 200
        finally:
            server.stop(running)  # before sshd


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_server(home: Path, start: Any, number: int) -> None:
    running = start("dask", f"{TASKS}:pid", ssh="one", workers=1)
    pid = int(get(running.url)[1])
    agent = psutil.Process(pid).parents()
    running.process.send_signal(number)
    assert wait_until(lambda: running.process.poll() is not None)
    assert wait_until(lambda: not is_running(pid))
    assert wait_until(lambda: not any("dask_cluster.agent" in _command(p) for p in agent))


def test_workers_are_started_again_when_their_agent_ends(home: Path, start: Any) -> None:
    running = start("dask", f"{TASKS}:pid", ssh="one", workers=1)
    pid = int(get(running.url)[1])
    [agent] = [
        p
        for p in psutil.Process(pid).parents()
        if "dask_cluster.agent" in _command(p) and "sshd" not in _command(p)
    ][-1:]
    agent.kill()
    assert wait_until(lambda: not is_running(pid))

    def is_back() -> bool:
        status, body = get(running.url)
        return status == 200 and int(body) != pid

    assert wait_until(is_back, 40)


def transports() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if isinstance(each, paramiko.Transport)]


def test_a_host_behind_another_one_is_refused_and_both_are_disconnected(home: Path) -> None:
    require("dask")
    from offload.serving.pools.dask_cluster import ssh_workers

    config = home / ".ssh" / "config"
    text = config.read_text()
    config.write_text(f"{text}\n{text.replace('Host one two', 'Host far')}  ProxyJump one\n")
    host = ssh_workers.Host("far", 1)
    with pytest.raises(MachineError, match="host far is reached through another one"):
        host.connect()
    assert len(transports()) == 2
    host.end()
    assert wait_until(lambda: not transports())


def test_a_connection_that_fails_is_closed(home: Path) -> None:
    (home.parent / "key.pub").write_text("")
    with pytest.raises(MachineError, match="host one accepts no key of yours"):
        ssh.connect("one")
    assert wait_until(lambda: not transports())


def test_hosts_need_no_thread_of_the_loop(home: Path) -> None:
    """The loop has few threads: with more hosts than these, a server never ended."""
    require("dask")
    done = subprocess.run(
        [sys.executable, "-P", "-c", END_ON_ONE_THREAD],
        env={**os.environ, **places.import_path()},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_an_agent_ends_while_its_workers_wait_for_the_scheduler(own_temporary: Path) -> None:
    require("dask")
    process = start_agent()
    try:
        assert wait_until(lambda: [*own_temporary.iterdir()])  # it is about to start workers
        children = psutil.Process(process.pid).children(recursive=True)
        assert process.stdin is not None
        process.stdin.close()
        assert wait_until(lambda: process.poll() is not None, 10)  # they would wait for 30 s
        assert wait_until(lambda: not any(map(is_running, children)))
        assert wait_until(lambda: not [*own_temporary.iterdir()])
    finally:
        process.kill()
        process.wait(10)


def test_an_agent_ends_without_heartbeats(own_temporary: Path) -> None:
    require("dask")
    process = start_agent(silence_s=2.0)
    try:
        assert wait_until(lambda: process.poll() is not None, 15)  # stdin is still open
        assert wait_until(lambda: not [*own_temporary.iterdir()])
    finally:
        process.kill()
        process.wait(10)


def start_agent(silence_s: float = 60.0) -> subprocess.Popen[bytes]:
    """Start an agent with one worker, for a scheduler that does not exist."""
    from distributed.security import Security

    from offload.serving.pools.dask_cluster import agent, ssh_workers

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    keys = ssh_workers._keys(Security.temporary())
    order = {"scheduler": f"tls://127.0.0.1:{port}", "keys": keys, "workers": 1}
    program = f"import {agent.__name__} as agent; agent.SILENCE = {silence_s}; agent.main()"
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", program],
        env={
            **os.environ,
            **places.import_path(),
            "SSH_CONNECTION": "127.0.0.1 50000 127.0.0.1 22",
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(order).encode() + b"\n")
    process.stdin.flush()
    return process


def test_an_unknown_host_key_is_one_line(home: Path) -> None:
    (home / ".ssh" / "known_hosts").write_text("")
    code, lines = wait_for_end(begin("dask", "noop_sync", "0", SERVER_SSH="one"))
    assert (code, len(lines)) == (3, 1)
    assert "host one: its key is unknown: run ssh one once, and check its key" in lines[0]


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
