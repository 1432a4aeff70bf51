"""SSH connections by Fabric, with the user's SSH configuration.

Unknown host keys are refused, unless that configuration accepts them (StrictHostKeyChecking).
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fabric
import paramiko

from offload.errors import MachineError, UsageError

CONNECT_S = 10.0  # for the connection, the banner and the login, each
KNOWN_HOSTS = ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")
ACCEPT_NEW = ("no", "off", "accept-new")  # values of StrictHostKeyChecking that accept unknown keys
SEND_S = 20.0  # s until a host accepts what is sent to it
MOST_CHARACTERS = 300  # of what a host printed
FAILURES = (OSError, EOFError, ValueError, paramiko.SSHException)

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # errors are raised, too
logging.getLogger("paramiko").propagate = False

_config: fabric.Config | None = None


def configure(ssh_config: str, identity: str, connect_timeout_s: int | None) -> None:
    """Connect with an SSH configuration, a private key and a timeout; each may be empty."""
    global _config
    overrides: dict[str, object] = {}
    if identity:
        overrides["connect_kwargs"] = {"key_filename": [identity]}
    if connect_timeout_s is not None:
        overrides["timeouts"] = {"connect": connect_timeout_s}
    _config = fabric.Config(overrides=overrides, runtime_ssh_path=ssh_config or None)


def connect(host: str) -> fabric.Connection:
    """Return an open connection; raise UsageError for an invalid name, else MachineError."""
    try:
        connection = fabric.Connection(host)
    except (ValueError, OSError, paramiko.SSHException) as error:
        raise UsageError(f"host {host[:60]!r}: {error}", "see your SSH configuration") from None
    secure(connection)
    try:
        connection.open()
    except Exception as error:  # noqa: BLE001 - Fabric and paramiko raise many kinds
        close(connection)
        raise MachineError(*reason(host, error)) from None
    return connection


def connections(hosts: Sequence[str]) -> fabric.ThreadingGroup:
    """Return a connection to each host, not yet open; raise UsageError for an invalid name."""
    try:
        found = fabric.ThreadingGroup(*hosts, config=_config or fabric.Config())
    except (ValueError, OSError, paramiko.SSHException) as error:
        raise UsageError(f"from={'+'.join(hosts)}: {error}", "see your SSH configuration") from None
    for each in found:
        secure(each)
    return found


class Channel:
    """The stdin and stdout of a program on a host."""

    def __init__(self, connection: fabric.Connection, name: str, command: str) -> None:
        self._connection, self._name, self._command = connection, name, command
        self._channel: paramiko.Channel | None = None

    def open(self) -> None:
        """Connect, and start the program; raise MachineError."""
        try:
            self._connection.open()
            self._channel = self._connection.transport.open_session(timeout=CONNECT_S)
            self._channel.settimeout(SEND_S)
            self._channel.exec_command(self._command)
        except FAILURES as error:
            raise MachineError(*reason(self._name, error)) from None

    def send(self, data: bytes) -> None:
        """Send bytes; raise OSError."""
        assert self._channel is not None
        self._channel.settimeout(SEND_S)
        self._channel.sendall(data)

    def receive(self, timeout_s: float) -> bytes:
        """Return some bytes, or none at the end of the stream; raise OSError, as TimeoutError."""
        assert self._channel is not None
        self._channel.settimeout(max(0.001, timeout_s))
        return bytes(self._channel.recv(1 << 18))

    def exit_report(self) -> tuple[int | None, str]:
        """Return the exit code of a program that has ended, and the last line on its stderr."""
        if self._channel is None:
            return None, ""
        until = time.monotonic() + 1.0
        while not self._channel.exit_status_ready() and time.monotonic() < until:
            time.sleep(0.01)
        code = self._channel.recv_exit_status() if self._channel.exit_status_ready() else None
        text = b""
        while self._channel.recv_stderr_ready() and len(text) < 1 << 16:
            text += self._channel.recv_stderr(1 << 14)
        lines = text.decode(errors="replace").strip().splitlines()
        return code, lines[-1][:MOST_CHARACTERS] if lines else ""

    def close(self) -> None:
        """End the connection: the program ends with it."""
        close(self._connection)


def close(connection: fabric.Connection) -> None:
    """End a connection, also one that was not opened completely, and those to its gateways."""
    connection.close()
    connection.client.close()
    if isinstance(connection.gateway, fabric.Connection):
        close(connection.gateway)


def secure(connection: fabric.Connection) -> None:
    """Set which keys a connection and its gateways accept, and their timeouts."""
    settings: dict[str, Any] = connection.ssh_config
    if connection.connect_timeout is None and "timeout" not in connection.connect_kwargs:
        connection.connect_timeout = int(CONNECT_S)
    for name in ("banner_timeout", "auth_timeout"):
        connection.connect_kwargs.setdefault(name, CONNECT_S)
    files = [*KNOWN_HOSTS, *settings.get("userknownhostsfile", "").split()]
    for file in (Path(each).expanduser() for each in files):
        if file.is_file():
            connection.client.load_system_host_keys(str(file))
    is_strict = settings.get("stricthostkeychecking", "ask").lower() not in ACCEPT_NEW
    policy = paramiko.RejectPolicy() if is_strict else paramiko.AutoAddPolicy()
    connection.client.set_missing_host_key_policy(policy)
    if isinstance(connection.gateway, fabric.Connection):
        secure(connection.gateway)


def reason(host: str, error: Exception) -> tuple[str, str]:
    """Return why a connection failed, and the remedy."""
    retry = f"ssh {host} must work without a password"
    if isinstance(error, paramiko.BadHostKeyException):
        return f"host {host}: its key is not the one in known_hosts", "find out why it has changed"
    if isinstance(error, paramiko.AuthenticationException):
        return f"host {host} accepts no key of yours", retry
    if isinstance(error, paramiko.SSHException) and "not found in known_hosts" in str(error):
        return f"host {host}: its key is unknown", f"run ssh {host} once, and check its key"
    if isinstance(error, socket.gaierror):
        return f"host {host} is unknown", "name one of your machines, or of your SSH configuration"
    if isinstance(error, TimeoutError):
        return f"host {host} did not respond within {CONNECT_S:.0f} s", retry
    what = " ".join(str(getattr(error, "strerror", None) or error).split())
    return f"host {host}: {what or type(error).__name__}", retry
