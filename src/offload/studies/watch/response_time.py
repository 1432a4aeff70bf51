"""Send one request a second to a URL, and measure its response time."""

from __future__ import annotations

import http.client
import threading
import time
from collections import deque
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from offload.engine import sockets
from offload.errors import UsageError
from offload.loads import mask_query, request_target, split_credentials

EVERY = 1.0  # s from one request to the next; a slower response delays the next request
TIMEOUT = 30.0  # s
PART = 1 << 16  # bytes of a response that are read at once
LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0")  # noqa: S104 - nothing is bound to it
CONNECTIONS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


@dataclass(frozen=True)
class Response:
    """The response time of a request in s, from connecting to the last byte, and its status.

    If the request failed, `error` is the reason in one line. If `is_pending`, there is no response
    yet, and `seconds` is how long the request has waited.
    """

    seconds: float
    status: int | None = None
    error: str | None = None
    is_pending: bool = False

    @property
    def is_ok(self) -> bool:
        """Whether the request was answered without an error status."""
        return self.status is not None and self.status < 400


def parse(url: str) -> SplitResult:
    """Return the parts of a URL; raise UsageError unless it is of http or https."""
    try:
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")  # as the look-up of its address does
        is_valid = parts.scheme in CONNECTIONS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or not url.isascii() or any(letter.isspace() for letter in url):
        raise UsageError(f"url={_shown(url)!r} is not a URL", "write url=http://127.0.0.1:8000/")
    return parts


def _shown(url: str) -> str:
    """Return a URL for a message, without its secrets."""
    return mask_query(split_credentials(url)[0])[:200]


def server_pid(url: str) -> int:
    """Return the pid of the process that listens on a URL's port of this machine.

    Raise UsageError if no process listens there, or if several unrelated ones do.
    """
    parts = parse(url)
    port = parts.port or http.client.HTTP_PORT
    if parts.port is None and parts.scheme == "https":
        port = http.client.HTTPS_PORT
    roots = sockets.listening_roots(port) if parts.hostname in LOCAL else ()
    if len(roots) == 1:
        return roots[0]
    if roots:
        pids = " or ".join(f"pid={pid}" for pid in sorted(roots))
        raise UsageError(f"{len(roots)} processes listen on port {port}", f"select one by {pids}")
    what = f"the process that serves {_shown(url)} was not found"
    raise UsageError(what, "add pid=, or run watch as its user or root")


class Requester:
    """Send GET requests to a URL from `__enter__` to `__exit__`, each on its own connection.

    Credentials in the URL are sent in the header `Authorization`, as by loads.
    """

    def __init__(self, url: str) -> None:
        url, authorization = split_credentials(url)
        self._headers = {} if authorization is None else {"Authorization": authorization}
        self._parts = parse(url)
        self._target = request_target(self._parts)
        self._stopped = threading.Event()
        self._ended: deque[Response] = deque()
        self._began: float | None = None
        self._thread = threading.Thread(target=self._send_until_stopped, daemon=True)

    def __enter__(self) -> Requester:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()  # a request without a response ends with this program

    def take(self) -> tuple[Response, ...]:
        """Return the responses since the last call, or else the pending request, if there is one.

        After a slow response the next request is sent at once, so there may be several.
        """
        began = self._began
        ended = [self._ended.popleft() for _ in range(len(self._ended))]
        if not ended and began is not None:
            return (Response(time.monotonic() - began, is_pending=True),)
        return tuple(ended)

    def _send_until_stopped(self) -> None:
        due = time.monotonic()
        while not self._stopped.wait(max(0.0, due - time.monotonic())):
            self._began = time.monotonic()
            self._ended.append(self._send(self._began))
            self._began = None
            due = max(due + EVERY, time.monotonic())

    def _send(self, began: float) -> Response:
        connection = CONNECTIONS[self._parts.scheme](
            self._parts.hostname or "", self._parts.port, timeout=TIMEOUT
        )
        try:
            connection.request("GET", self._target, headers=self._headers)
            response = connection.getresponse()
            while response.read(PART) and not self._stopped.is_set():  # it may never end
                pass
            if response.length:  # `read` with a size does not report a missing part
                raise http.client.IncompleteRead(b"", response.length)
            return Response(time.monotonic() - began, response.status)
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            return Response(time.monotonic() - began, error=reason)
        finally:
            connection.close()
