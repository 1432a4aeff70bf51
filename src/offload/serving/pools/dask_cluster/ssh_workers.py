"""Workers on other hosts: a scheduler in the server's process, and an agent on each host.

Fabric connects, because it is installed with this project and reads the user's SSH configuration:
asyncssh, which dask's SSHCluster needs, would be a second SSH client with settings of its own. The
agent's stdin is the connection: if the server ends, even by kill -9, the agent and its workers end.
They also end if no heartbeat arrives, because the server's machine or the network has failed.
Messages between the machines are encrypted, with keys that only the agents receive, by stdin.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any

import paramiko
from distributed import Scheduler
from distributed.security import Security

from offload import ssh
from offload.errors import MachineError, StartError
from offload.registry import places
from offload.serving.lifecycle import log
from offload.serving.pools.dask_cluster import agent, folder, settings

RETRYING = 2.0  # s after the workers of a host have ended, until they are started again
ENDING = 5.0  # s for the workers of a host to end


class Host:
    """The workers of one host."""

    def __init__(self, name: str, workers: int) -> None:
        self.name = name
        self._workers = workers
        self._connection: Any = None
        self._channel: paramiko.Channel | None = None

    def connect(self) -> str:
        """Connect, and return the address by which the host sees us; raise MachineError."""
        self._connection = ssh.connect(self.name)
        connected = self._connection.transport.sock
        if not isinstance(connected, socket.socket):  # but a channel of another connection
            what = f"host {self.name} is reached through another one (ProxyJump or ProxyCommand)"
            raise MachineError(what, "use hosts that can connect to this machine directly")
        return str(connected.getsockname()[0])

    def start(self, order: dict[str, Any]) -> None:
        """Start the workers; raise StartError."""
        channel = self._channel = self._connection.create_session()
        channel.exec_command(_command())
        channel.sendall(json.dumps({**order, "workers": self._workers}).encode() + b"\n")
        last = ""
        with channel.makefile("r") as lines:
            for line in lines:  # the login shell may print others before
                last = line.strip()
                if last == agent.READY:
                    return
        why = self._last_line(last)
        raise StartError(f"host {self.name}: its workers do not start ({why})")

    def wait(self) -> None:
        """Wait until the workers have ended, and send heartbeats to their agent."""
        assert self._channel is not None
        with suppress(OSError):  # the connection is lost
            while not self._channel.status_event.wait(agent.HEARTBEAT):
                self._channel.sendall(b"\n")

    def end(self) -> None:
        """End the workers, and disconnect."""
        with suppress(OSError, EOFError, paramiko.SSHException):
            if self._channel is not None:
                self._channel.shutdown_write()  # the agent's stdin ends
                self._channel.status_event.wait(ENDING)
        if self._connection is not None:
            ssh.close(self._connection)

    def _last_line(self, line: str) -> str:
        assert self._channel is not None
        lines = [line, *self._channel.makefile_stderr("r").read().splitlines()]
        return next((text for text in reversed(lines) if text), "no output")[:300]


@asynccontextmanager
async def start(
    names: Sequence[str], workers: int, failures: int
) -> AsyncIterator[tuple[str, Any]]:
    """Start workers on each host; yield the address of the scheduler and the keys.

    Raise MachineError or StartError. A task is repeated if at most `failures` workers that had it
    have died.
    """
    shares = [len(range(index, workers, len(names))) for index in range(len(names))]
    hosts = [Host(name, share) for name, share in zip(names, shares, strict=True) if share]
    settings.apply(folder.create(), failures)
    security = Security.temporary()
    # For each host, one thread waits for the end of its workers, and one starts or ends them. The
    # loop's own pool has as few as 5 threads: all of them would wait.
    threads = ThreadPoolExecutor(2 * len(hosts), "ssh")
    loop = asyncio.get_running_loop()
    try:
        connecting = (loop.run_in_executor(threads, host.connect) for host in hosts)
        ours = await asyncio.gather(*connecting)
        listening = ours[0] if len({*ours}) == 1 else "0.0.0.0"  # noqa: S104 - keys are needed
        async with Scheduler(
            host=listening,
            port=0,
            protocol="tls",
            security=security,
            **settings.without_pages("127.0.0.1"),
        ) as scheduler:
            port = scheduler.port
            orders = [
                {"scheduler": f"tls://{address}:{port}", "keys": _keys(security)}
                for address in ours
            ]
            pairs = [*zip(hosts, orders, strict=True)]
            starting = (loop.run_in_executor(threads, host.start, order) for host, order in pairs)
            await asyncio.gather(*starting)
            restarting = [
                asyncio.create_task(_restart_when_ended(host, order, threads))
                for host, order in pairs
            ]
            try:
                yield scheduler.address, security
            finally:
                for task in restarting:
                    task.cancel()
    finally:
        await asyncio.gather(*(loop.run_in_executor(threads, host.end) for host in hosts))
        threads.shutdown(wait=False)


async def _restart_when_ended(host: Host, order: dict[str, Any], threads: Executor) -> None:
    """Start the workers of a host again whenever they end."""
    loop = asyncio.get_running_loop()
    while True:
        await loop.run_in_executor(threads, host.wait)
        log.failure(f"host {host.name}: its workers have ended, and are started again")
        while True:
            await asyncio.sleep(RETRYING)
            try:
                await loop.run_in_executor(threads, host.end)
                await loop.run_in_executor(threads, host.connect)
                await loop.run_in_executor(threads, host.start, order)
                break
            except Exception as error:  # noqa: BLE001 - the host may be off
                log.failure(f"host {host.name}: {error}")


def _keys(security: Security) -> dict[str, str]:
    """Return what a worker needs to connect, as text."""
    found = security.get_tls_config_for_role("worker")
    return {"ca": found["ca_file"], "cert": found["cert"], "key": found["key"]}


def _command() -> str:
    """Return the command of the agent: this interpreter's path, on the host."""
    paths = [f"{key}={value}" for key, value in places.import_path().items()]
    return shlex.join(["exec", "env", *paths, sys.executable, "-P", "-m", agent.__name__])
