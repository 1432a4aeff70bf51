"""Holding: an open connection to the supervisor, by which it knows that it is needed."""

from __future__ import annotations

import socket
from pathlib import Path
from types import TracebackType

from offload.errors import StartError, UsageError
from offload.upstream import facts_file
from offload.upstream.facts_file import Facts, Upstream
from offload.upstream.launch import START_DEADLINE, start
from offload.upstream.lock import locked

TALK_DEADLINE = 5.0  # seconds for one line of a supervisor that may be busy serving


class Holding:
    """The holder's side: the upstream lives at least until this is closed or its process dies."""

    def __init__(self, upstream: Upstream, connection: socket.socket) -> None:
        self.upstream = upstream
        self._connection = connection

    def inherit(self) -> int:
        """Let the connection survive an exec of this process; return its descriptor."""
        self._connection.set_inheritable(True)
        return self._connection.fileno()

    def close(self) -> None:
        """Let go; if this was the last holder the upstream has begun to end on return."""
        try:
            self._connection.shutdown(socket.SHUT_WR)
            self._connection.recv(1)  # the supervisor closes once it has counted the end
        except OSError:  # it was killed meanwhile, or is hung: nothing is held either way
            pass
        finally:
            self._connection.close()

    def __enter__(self) -> Holding:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def running() -> Upstream | None:
    """Find the running upstream without holding it; None if there is none."""
    facts = facts_file.read(facts_file.folder())
    connection = _connected(facts) if facts else None
    if facts is None or connection is None:
        return None
    connection.close()
    return facts.upstream


def hold(latency_s: float | None = None) -> Holding:
    """Hold the running upstream or start one; raise StartError if none answers in 10 s.

    With `latency_s` None any latency will do, and one that is started has none; raise UsageError
    if the running one has another latency than the one asked for.
    """
    folder = facts_file.folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(folder / "lock", 2 * START_DEADLINE):
        found = _held(folder)
        if found is None:
            start(folder, latency_s or 0.0)
            found = _held(folder)
    if found is None:
        raise StartError(f"the upstream ended as soon as it had started: see {folder / 'log'}")
    has = found.upstream.latency_s
    if latency_s is not None and has != latency_s:
        found.close()
        hint = f"end it (pid {found.upstream.pid}), or ask for latency={has:g}"
        asked = f"has a latency of {has:g} s, not {latency_s:g}"
        raise UsageError(f"the running upstream {asked}: {hint}")
    return found


def _held(folder: Path) -> Holding | None:
    facts = facts_file.read(folder)
    connection = _connected(facts) if facts else None
    if facts is None or connection is None:
        return None
    try:
        connection.sendall(b"hold\n")
        if _line(connection) == b"held\n":
            return Holding(facts.upstream, connection)
    except OSError:  # it ended between the two lines
        pass
    connection.close()
    return None


def _connected(facts: Facts) -> socket.socket | None:
    """Connect to the hold port; None if what answers there is not the upstream of these facts."""
    try:
        connection = socket.create_connection(("127.0.0.1", facts.hold_port), TALK_DEADLINE)
    except OSError:
        return None
    try:
        if _line(connection) == f"upstream {facts.token}\n".encode():
            return connection
    except OSError:
        pass
    connection.close()
    return None


def _line(connection: socket.socket) -> bytes:
    """Receive one line of at most 100 bytes; less of it at the connection's end."""
    line = b""
    while not line.endswith(b"\n") and len(line) < 100 and (more := connection.recv(100)):
        line += more
    return line
