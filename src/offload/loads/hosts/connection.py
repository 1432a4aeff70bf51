"""SSH connections to the hosts of a load, by Fabric and with the user's SSH configuration.

Only this module and `offload.ssh` import Fabric, so that commands without `from=` start fast.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import fabric
import paramiko

from offload import ssh
from offload.errors import MachineError, UsageError

COMMAND = "exec offload load_host"  # exec: the login shell is replaced
SEND_S = 20.0  # s until a host accepts what is sent to it
MOST_CHARACTERS = 300  # of what a host printed
FAILURES = (OSError, EOFError, ValueError, paramiko.SSHException)

_config: fabric.Config | None = None

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # errors are raised, too
logging.getLogger("paramiko").propagate = False


def use(ssh_config: str, identity: str, connect_timeout_s: int | None) -> None:
    """Connect with an SSH configuration, a private key and a timeout; each may be empty."""
    global _config
    overrides: dict[str, object] = {}
    if identity:
        overrides["connect_kwargs"] = {"key_filename": [identity]}
    if connect_timeout_s is not None:
        overrides["timeouts"] = {"connect": connect_timeout_s}
    _config = fabric.Config(overrides=overrides, runtime_ssh_path=ssh_config or None)


def group(hosts: Sequence[str]) -> fabric.ThreadingGroup:
    """Return a connection to each host, not yet open; raise UsageError for an invalid name."""
    try:
        found = fabric.ThreadingGroup(*hosts, config=_config or fabric.Config())
    except (ValueError, OSError, paramiko.SSHException) as error:
        raise UsageError(f"from={'+'.join(hosts)}: {error}", "see your SSH configuration") from None
    for each in found:
        ssh.secure(each)
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
            self._channel = self._connection.transport.open_session(timeout=ssh.CONNECT_S)
            self._channel.settimeout(SEND_S)
            self._channel.exec_command(COMMAND)
        except FAILURES as error:
            raise MachineError(*ssh.reason(self._name, error)) from None

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
        return code, lines[-1][:MOST_CHARACTERS] if lines else ""

    def close(self) -> None:
        """End the connection: the agent ends with it."""
        ssh.close(self._connection)
