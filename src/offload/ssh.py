"""SSH connections by Fabric, with the user's SSH configuration.

Unknown host keys are refused, unless that configuration accepts them (StrictHostKeyChecking).
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import fabric
import paramiko

from offload.errors import MachineError, UsageError

CONNECT_S = 10.0  # for the connection, the banner and the login, each
KNOWN_HOSTS = ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")
ACCEPT_NEW = ("no", "off", "accept-new")  # values of StrictHostKeyChecking that accept unknown keys


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
