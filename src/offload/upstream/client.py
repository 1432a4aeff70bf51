"""The client of the upstream, which runs as long as a client has an open connection."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from offload.errors import StartError, StorageError, UsageError
from offload.upstream import facts_file
from offload.upstream.facts_file import Facts, Upstream
from offload.upstream.launch import START_DEADLINE, start
from offload.upstream.lock import locked

LINE_DEADLINE = 5.0  # seconds for one line from a supervisor that may be busy serving


class Hold:
    """A hold on the upstream, which runs at least until this is closed or its process dies."""

    def __init__(self, upstream: Upstream, connection: socket.socket) -> None:
        self.upstream = upstream
        self._connection = connection

    def inherit(self) -> int:
        """Let the connection survive an exec of this process; return its descriptor."""
        self._connection.set_inheritable(True)
        return self._connection.fileno()

    def close(self) -> None:
        """Release the hold; if it was the last one, the upstream is stopping on return."""
        try:
            self._connection.shutdown(socket.SHUT_WR)
            self._connection.recv(1)  # the supervisor closes once it has counted the release
        except OSError:  # the supervisor was killed or hangs: there is nothing to release
            pass
        finally:
            self._connection.close()

    def __enter__(self) -> Hold:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def running() -> Upstream | None:
    """Return the running upstream without holding it; None if none is running."""
    facts = facts_file.read(facts_file.folder())
    connection = _connect(facts) if facts else None
    if facts is None or connection is None:
        return None
    connection.close()
    return facts.upstream


def hold(latency_s: float | None = None) -> Hold:
    """Hold the running upstream or start one; raise StartError if none responds within 10 s.

    With `latency_s` None any latency is accepted, and a new upstream has none. Raise UsageError if
    the running upstream has a latency other than `latency_s`, and StorageError if its folder cannot
    be used.
    """
    folder = facts_file.folder()
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(folder / "lock", 2 * START_DEADLINE):
            found = _try_hold(folder)
            if found is None:
                start(folder, latency_s or 0.0)
                found = _try_hold(folder)
    if found is None:
        raise StartError("the upstream ended right after its start", f"see {folder / 'log'}")
    latency = found.upstream.latency_s
    if latency_s is not None and latency != latency_s:
        found.close()
        hint = f"stop it (pid {found.upstream.pid}), or use latency={latency:g}"
        difference = f"has a latency of {latency:g} s, not {latency_s:g}"
        raise UsageError(f"the running upstream {difference}", hint)
    return found


@contextmanager
def storage_errors(folder: Path) -> Iterator[None]:
    """Raise StorageError for an OSError; `folder` is that of the upstream."""
    try:
        yield
    except OSError as error:
        fix = "check permissions and disk space, or set UPSTREAM_FOLDER=folder"
        raise StorageError(f"{error.filename or folder}: {error.strerror}", fix) from error


def _try_hold(folder: Path) -> Hold | None:
    facts = facts_file.read(folder)
    connection = _connect(facts) if facts else None
    if facts is None or connection is None:
        return None
    try:
        connection.sendall(b"hold\n")
        if _line(connection) == b"held\n":
            return Hold(facts.upstream, connection)
    except OSError:  # the upstream ended between the two lines
        pass
    connection.close()
    return None


def _connect(facts: Facts) -> socket.socket | None:
    """Connect to the hold port; None unless the upstream of these facts responds there."""
    try:
        connection = socket.create_connection(("127.0.0.1", facts.hold_port), LINE_DEADLINE)
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
    """Receive one line of at most 100 bytes; a partial line if the connection ends."""
    line = b""
    while not line.endswith(b"\n") and len(line) < 100 and (more := connection.recv(100)):
        line += more
    return line
