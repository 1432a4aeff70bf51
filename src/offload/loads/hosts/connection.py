"""SSH connections to the hosts of a load, by Fabric and with the user's SSH configuration.

Nothing else imports Fabric, so that commands without `from=` start fast.
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

COMMAND = "exec offload load_host"  # exec: the login shell is replaced
CONNECT_S = 10.0  # for the connection, the banner and the login, each
SEND_S = 20.0  # s until a host accepts what is sent to it
LAST_WORDS = 300  # characters of what a host printed
KNOWN_HOSTS = ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")
FAILURES = (OSError, EOFError, ValueError, paramiko.SSHException)
ACCEPT_NEW = ("no", "off", "accept-new")  # values of StrictHostKeyChecking

_config: fabric.Config | None = None

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # errors are raised, too
logging.getLogger("paramiko").propagate = False


def use(config: fabric.Config) -> None:
    """Connect with this configuration, which has the command line's `-S`, `-i` and `-t`."""
    global _config
    _config = config


def group(hosts: Sequence[str]) -> fabric.ThreadingGroup:
    """Return a connection to each host, not yet open; raise UsageError for an invalid name."""
    try:
        found = fabric.ThreadingGroup(*hosts, config=_config or fabric.Config())
    except (ValueError, OSError, paramiko.SSHException) as error:
        raise UsageError(f"from={'+'.join(hosts)}: {error}", "see your SSH configuration") from None
    for each in found:
        _secure(each)
    return found


class SshChannel:
    """The stdin and stdout of an agent on a host."""

    def __init__(self, connection: fabric.Connection, name: str) -> None:
        self._connection, self._name = connection, name
        self._channel: paramiko.Channel | None = None

    def open(self) -> None:
        """Connect, and start the agent; raise MachineError."""
        try:
            self._connection.open()
            self._channel = self._connection.transport.open_session(timeout=CONNECT_S)
            self._channel.settimeout(SEND_S)
            self._channel.exec_command(COMMAND)
        except FAILURES as error:
            raise MachineError(*_reason(self._name, error)) from None

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

    def last_words(self) -> tuple[int | None, str]:
        """Return the exit code of an agent that has ended, and the last line on its stderr."""
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
        return code, lines[-1][:LAST_WORDS] if lines else ""

    def close(self) -> None:
        """End the connection: the agent ends with it."""
        self._connection.close()
        if isinstance(self._connection.gateway, fabric.Connection):
            self._connection.gateway.close()


def _secure(connection: fabric.Connection) -> None:
    """Let a connection, and its gateways, accept only known keys, and have timeouts."""
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
        _secure(connection.gateway)


def _reason(name: str, error: Exception) -> tuple[str, str]:
    """Return why a connection failed, and the remedy."""
    retry = f"ssh {name} must work without a password"
    if isinstance(error, paramiko.BadHostKeyException):
        return f"host {name}: its key is not the one in known_hosts", "find out why it has changed"
    if isinstance(error, paramiko.AuthenticationException):
        return f"host {name} accepts no key of yours", retry
    if isinstance(error, paramiko.SSHException) and "not found in known_hosts" in str(error):
        return f"host {name}: its key is unknown", f"run ssh {name} once, and check its key"
    if isinstance(error, socket.gaierror):
        return f"host {name} is unknown", "name one of your machines, or of your SSH configuration"
    if isinstance(error, TimeoutError):
        return f"host {name} did not respond within {CONNECT_S:.0f} s", retry
    what = " ".join(str(getattr(error, "strerror", None) or error).split())
    return f"host {name}: {what or type(error).__name__}", retry
