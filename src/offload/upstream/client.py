"""The client of the upstream: use the one that a user has started, or start one.

A started upstream is a process of its own, which ends when its holder closes a socket, or dies. It
is no child of its holder, so that the CPU time and the memory of a server do not include it.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from types import TracebackType
from typing import IO, Any
from urllib.parse import urlsplit

from offload.errors import StartError, StorageError, UsageError
from offload.registry import places

HTTP_PORT, HTTPS_PORT = 8081, 8444  # of the one that a user starts
START_S = 10.0  # s from the start until everything responds
STATUS_S = 5.0  # s for the status of an upstream that may be busy
END_S = 5.0  # s until it has ended
NOT_BY_PROXY = "127.0.0.1,localhost"
CA = "ca.pem"  # in the folder


@dataclass(frozen=True)
class Upstream:
    """A running upstream: `kind` is nginx or embedded, `latency_s` the delay of each page.

    `ca` is the file with the certificate that verifies its own.
    """

    http: str
    https: str
    ca: str
    kind: str
    latency_s: float
    pid: int

    def environment(self) -> dict[str, str]:
        """The environment variables by which tasks find this upstream without a proxy."""
        return {
            "UPSTREAM_HTTP": self.http,
            "UPSTREAM_HTTPS": self.https,
            "UPSTREAM_CA": self.ca,
            "NO_PROXY": NOT_BY_PROXY,
            "no_proxy": NOT_BY_PROXY,
        }


def folder() -> Path:
    """The folder of the certificates and the log: UPSTREAM_FOLDER, or one in the cache folder."""
    folder_name = os.environ.get("UPSTREAM_FOLDER")
    return Path(folder_name).resolve() if folder_name else places.cache() / "upstream"


def running() -> Upstream | None:
    """Return the upstream that a user has started; None if there is none.

    It is expected at UPSTREAM, which is a port of this machine by default.
    """
    return find(os.environ.get("UPSTREAM", f"https://127.0.0.1:{HTTPS_PORT}"))


def find(https: str) -> Upstream | None:
    """Return the upstream at an address; None if none responds there that has our certificate."""
    try:
        address = urlsplit(https)
        tls = ssl.create_default_context(cafile=folder() / CA)
        connection = HTTPSConnection(
            address.hostname or "", address.port, timeout=STATUS_S, context=tls
        )
        try:
            connection.request("GET", "/status")
            return _upstream(connection.getresponse().read())
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError):  # no certificate, refused, or another server
        return None


def status_of(upstream: Upstream) -> dict[str, Any]:
    """Return what an upstream reports of itself."""
    return {name: value for name, value in asdict(upstream).items() if name != "ca"}


def _upstream(status: bytes) -> Upstream:
    """Parse an upstream's status; raise ValueError."""
    try:
        found = json.loads(status)
        names = ("http", "https", "kind", "latency_s", "pid")
        return Upstream(ca=str(folder() / CA), **{name: found[name] for name in names})
    except (TypeError, KeyError) as error:
        raise ValueError("it is not the status of an upstream") from error


class Hold:
    """A hold on an upstream; one that it has started ends with it, or with this process.

    The started one reads from `connection`, and its `output` ends when it does.
    """

    def __init__(
        self,
        upstream: Upstream,
        connection: socket.socket | None = None,
        output: IO[bytes] | None = None,
    ) -> None:
        self.upstream = upstream
        self._connection = connection
        self._output = output

    def inherit(self) -> None:
        """Let the hold survive an exec of this process."""
        if self._connection is not None:
            self._connection.set_inheritable(True)

    def close(self) -> None:
        """Release the hold; an upstream that it has started has ended on return."""
        if self._connection is None or self._output is None:
            return
        with suppress(OSError):  # it has ended
            self._connection.shutdown(socket.SHUT_WR)  # forked children may have it, too
        self._connection.close()
        until = time.monotonic() + END_S
        while _read_line(self._output, until).endswith(b"\n"):
            pass  # an error that it reports
        self._output.close()
        if time.monotonic() > until:
            with suppress(ProcessLookupError):
                os.kill(self.upstream.pid, signal.SIGKILL)
        with suppress(ChildProcessError):  # it is a child if this process adopts orphans
            os.waitpid(self.upstream.pid, 0)

    def __enter__(self) -> Hold:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def hold(latency_s: float | None = None) -> Hold:
    """Hold the user's upstream or start one; raise StartError if none responds within 10 s.

    With `latency_s` None any latency is accepted, and a new upstream has none. Raise UsageError if
    the user's upstream has a latency other than `latency_s`, and StorageError if its folder cannot
    be used.
    """
    found, named = running(), os.environ.get("UPSTREAM")
    if found is None and named is not None:
        what = f"no upstream responds at UPSTREAM={named}"
        raise StartError(what, "start it by offload run_upstream, or unset UPSTREAM")
    if found is None:
        return _start(latency_s or 0.0)
    if latency_s is not None and found.latency_s != latency_s:
        hint = f"stop it (pid {found.pid}), or use latency={found.latency_s:g}"
        difference = f"has a latency of {found.latency_s:g} s, not {latency_s:g}"
        raise UsageError(f"the running upstream {difference}", hint)
    return Hold(found)


@contextmanager
def storage_errors(folder: Path) -> Iterator[None]:
    """Raise StorageError for an OSError; `folder` is that of the upstream."""
    try:
        yield
    except OSError as error:
        fix = "check permissions and disk space, or set UPSTREAM_FOLDER=folder"
        raise StorageError(f"{error.filename or folder}: {error.strerror}", fix) from error


def _start(latency_s: float) -> Hold:
    """Start an upstream that ends with the hold, and wait until it is ready."""
    where, until = folder(), time.monotonic() + START_S
    options = json.dumps({"held": True, "latency_s": latency_s})
    command = [sys.executable, "-P", "-m", "offload.upstream", options]
    with storage_errors(where):
        where.mkdir(parents=True, exist_ok=True, mode=0o700)
        own, other = socket.socketpair()
        with (where / "log").open("ab") as log, other:
            log.truncate(0)
            starter = subprocess.Popen(  # which forks the upstream and exits
                command,
                cwd=where,
                env=os.environ | places.import_path() | {"UPSTREAM_FOLDER": str(where)},
                stdin=other.fileno(),
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
    output = starter.stdout
    assert output is not None
    line = _read_line(output, until)
    starter.kill()
    starter.wait()
    try:
        return Hold(_upstream(line), own, output)
    except ValueError:
        own.close()
        output.close()
        reason = line.decode(errors="replace").strip() or "no message"
        raise StartError(f"the upstream did not start: {reason} (log: {where / 'log'})") from None


def _read_line(pipe: IO[bytes], until: float) -> bytes:
    """Read a line until a time of time.monotonic(); a part of it if the pipe ends before."""
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while not line.endswith(b"\n") and selector.select(max(0.0, until - time.monotonic())):
            if not (more := os.read(pipe.fileno(), 1000)):
                break
            line += more
    return line
