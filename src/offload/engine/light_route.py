"""Measure a light route, such as a health check, while another route is loaded.

find -> LightPaths: paths that answer before the load, and how long they take alone
     -> Prober: requests at equal intervals, each on its own connection, while the load runs
     -> LightRoute: the times of the requests that were sent in the window
"""

from __future__ import annotations

import asyncio
import math
import secrets
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from offload.engine.application import LightRoute
from offload.engine.record import Baseline
from offload.engine.workload import FailedRequest
from offload.loads import mask_query
from offload.suites import Case, Request

# Routes that are looked for, as Kubernetes, Rails, Go programs and load balancers name them.
NAMES = ("healthz", "livez", "readyz", "ping", "health")
MOST_FOUND = 2  # of them that are measured: their requests must stay few
CYCLES = 2.0  # responses per user in a window, at least
LEAST = 20  # requests from which their times are reported
SHARE = 0.01  # of the time of one process that the requests may take
# s between two requests: LEAST of them are sent in one window alone, or in three with others
SHORTEST_S, LONGEST_S = 0.05, 0.15
ALONE = 6  # requests before the load; the first one may take longer and is left out
LOOK_S = 1.0  # s, of a request while routes are looked for: a light route takes less
DRAIN_S = 10.0  # s until requests have ended that were sent while routes were looked for
TIMEOUT_S = 10.0  # s, of a request under load: no health check waits longer
LARGEST_BODY = 1 << 20  # bytes
# Refused or reset, or no HTTP
ERRORS = (OSError, EOFError, ValueError, LookupError, asyncio.LimitOverrunError)
FRESH_HEADERS = ("content-type", "content-length", "connection", "transfer-encoding")


@dataclass(frozen=True)
class Response:
    """The status of a response and its content; its `path` is left out of the `text`."""

    status: int
    text: bytes
    took_s: float = 0.0

    @property
    def is_success(self) -> bool:
        """Whether its status is 2xx."""
        return 200 <= self.status < 300

    def is_like(self, other: Response) -> bool:
        """Whether both may come from the same function, which echoes no more than the path."""
        return (self.status, self.text) == (other.status, other.text)


@dataclass(frozen=True)
class LightPaths:
    """The light routes of a server by path, with the response time of each alone in s.

    `is_found`: found by NAMES, not given by beside=. `headers` are those of their requests, and
    `loaded_s` is the response time alone of the route that is loaded. A window with it lasts
    `least_s` or more.
    """

    alone_s: Mapping[str, float] = field(default_factory=dict)
    is_found: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)
    loaded_s: float = 0.0
    least_s: float = 0.0

    @property
    def routes(self) -> frozenset[str]:
        """Their names in the reports of a server."""
        return frozenset(f"GET {path.partition('?')[0]}" for path in self.alone_s)

    @property
    def interval_s(self) -> float:
        """The time between two requests to one of them, in s.

        They take at most SHARE of a process's time, unless there would be too few.
        """
        shared_s = min(LONGEST_S, math.fsum(self.alone_s.values()) / SHARE)
        return min(1.0, max(SHORTEST_S, shared_s, self.least_s / (LEAST + 1)))

    @property
    def window_s(self) -> float:
        """The time that LEAST requests of each take; 0 without routes."""
        return (LEAST + 1) * self.interval_s if self.alone_s else 0.0


NO_PATHS = LightPaths()
_found: dict[object, list[str]] = {}  # by application, so that each is searched once


def find(
    case: Case,
    url: str,
    reported: Mapping[str, object],
    before: Baseline,
    cycle_s: float = 0.0,
) -> LightPaths:
    """Return the light routes of the server of a case, measured alone; users load it at `url`.

    These are the route that the user named or, in a user's application, those that have one of
    NAMES. `reported` is the server's ready line, `before` the result of the first requests, and
    `cycle_s` a time in s until every user has a response. Raise FailedRequest if the named route
    does not answer.
    """
    sent = case.request or Request()
    is_application = reported.get("application") is not None
    if sent.beside is None and not is_application:
        return NO_PATHS
    headers = {k: v for k, v in sent.message.headers.items() if k.lower() not in FRESH_HEADERS}
    base, least_s = _base(url), CYCLES * max(cycle_s, before.alone_s or 0.0)
    if sent.beside is not None:
        alone_s = _measure(base, sent.beside, headers)
        if isinstance(alone_s, str):
            what = f"beside={mask_query(sent.beside)}: {alone_s}"
            raise FailedRequest(what, "name a route that answers GET with a success")
        known = {sent.beside: alone_s}
    else:
        application = case.task, case.path, case.python, sent.header
        if application not in _found:
            _found[application] = asyncio.run(_look_for_routes(base, sent.path, headers))
        times = {path: _measure(base, path, headers) for path in _found[application]}
        known = {path: found for path, found in times.items() if isinstance(found, float)}
    return LightPaths(known, sent.beside is None, headers, before.alone_s or 0.0, least_s)


def _base(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _measure(base: str, path: str, headers: Mapping[str, str]) -> float | str:
    return asyncio.run(_measure_alone(base, path, headers))


async def _measure_alone(base: str, path: str, headers: Mapping[str, str]) -> float | str:
    """Return the median response time of a route in s, or why it is unknown."""
    taken = []
    for _ in range(ALONE):
        try:
            response = await asyncio.wait_for(_get(base, path, headers), TIMEOUT_S)
        except TimeoutError:
            return f"no answer within {TIMEOUT_S:.0f} s"
        except ERRORS as error:
            return f"no answer ({error!r})"
        if not response.is_success:
            return f"it answered {response.status}"
        taken.append(response.took_s)
    return statistics.median(taken[1:])


async def _look_for_routes(base: str, loaded: str, headers: Mapping[str, str]) -> list[str]:
    """Return the paths with one of NAMES that answer 2xx, and otherwise than a missing path does.

    An application may answer every path: then a name says nothing.
    """
    late: set[asyncio.Task[Response]] = set()

    async def look(path: str) -> Response | None:
        request = asyncio.create_task(_get(base, path, headers))
        await asyncio.wait({request}, timeout=LOOK_S)
        if not request.done():
            late.add(request)
            return None
        return None if request.exception() else request.result()

    found: list[str] = []
    missing: list[Response | None] | None = None
    for name in NAMES:
        for path in (f"/{name}", f"/{name}/"):
            response = await look(path)
            if response is None or response.is_success or response.status >= 500:
                break
        if response is None or not response.is_success or path == urlsplit(loaded).path:
            continue
        if missing is None:
            missing = [await look(f"/{secrets.token_hex(8)}") for _ in range(2)]
        if not _may_be_same(response, missing):
            found.append(path)
        if len(found) == MOST_FOUND:
            break
    if late:  # else they would disturb the first requests
        await asyncio.wait(late, timeout=DRAIN_S)
    for request in late:
        request.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    return found


def _may_be_same(response: Response, missing: Sequence[Response | None]) -> bool:
    """Whether a response may come from what answers missing paths, too."""
    answers = [each for each in missing if each is not None and each.is_success]
    if not answers:
        return False  # they fail, or take longer than a light route
    is_known = len(answers) == len(missing) and all(map(answers[0].is_like, answers))
    return not is_known or response.is_like(answers[0])


async def _get(base: str, path: str, headers: Mapping[str, str]) -> Response:
    """Send one request on a connection of its own; return its response."""
    began = time.monotonic()
    parts = urlsplit(base)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
    try:
        sent = {"Host": parts.netloc, **headers, "Connection": "close"}
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        head = await reader.readuntil(b"\r\n\r\n")
        status, *rest = head.decode("latin-1").split("\r\n")
        fields = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in rest)
        }
        length = fields.get("content-length", "")
        body = await (reader.readexactly(int(length)) if length else _read_to_end(reader))
        took_s = time.monotonic() - began
        text = body.replace(path.strip("/").encode(), b"")
        return Response(int(status.split(" ")[1]), text, took_s)
    finally:
        writer.close()


async def _read_to_end(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while part := await reader.read(LARGEST_BODY):
        parts.append(part)
        if sum(map(len, parts)) > LARGEST_BODY:
            raise ValueError(f"a body of more than {LARGEST_BODY} bytes")
    return b"".join(parts)


@dataclass
class Sent:
    """A request under load: its path, when it was due, and its response time in s if it ended."""

    path: str
    due: float
    took_s: float | None = None
    is_success: bool = False


class Prober:
    """Sends requests to light routes at equal intervals, in a thread, from enter to exit."""

    def __init__(self, url: str, paths: LightPaths) -> None:
        self._base = _base(url)
        self._paths = paths
        self._sent: list[Sent] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._send()), daemon=True)

    def __enter__(self) -> Self:
        if self._paths.alone_s:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._ended.set()
        if error is None and self._thread.ident is not None:  # else Ctrl-C would wait for them
            self._thread.join()

    def between(
        self, began: float | None, ended: float | None, completed: int
    ) -> tuple[LightRoute, ...]:
        """Return the figures of the requests that were due in a window, in s of monotonic().

        `completed` is the number of requests that the users completed in it.
        """
        if began is None or ended is None:
            return ()
        sent = [each for each in self._sent if began <= each.due < ended]
        busy_s = completed * self._paths.loaded_s
        return tuple(
            self._figures(path, [each for each in sent if each.path == path], busy_s)
            for path in self._paths.alone_s
        )

    def _figures(self, path: str, sent: Sequence[Sent], busy_s: float) -> LightRoute:
        alone_s = self._paths.alone_s[path]
        return LightRoute(
            path=mask_query(path),
            alone_s=round(alone_s, 6),
            taken_s=tuple(round(s.took_s, 4) for s in sent if s.took_s is not None),
            requests=len(sent),
            failed=sum(not s.is_success for s in sent),
            share=round(len(sent) * alone_s / busy_s, 4) if busy_s else None,
            is_found=self._paths.is_found,
        )

    async def _send(self) -> None:
        interval_s = self._paths.interval_s
        due, tasks = time.monotonic(), []
        while not self._ended.is_set():
            for number, path in enumerate(self._paths.alone_s):
                sent = Sent(path, due + number * interval_s / len(self._paths.alone_s))
                self._sent.append(sent)
                tasks.append(asyncio.create_task(self._request(sent)))
            due += interval_s
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        await asyncio.gather(*tasks)

    async def _request(self, sent: Sent) -> None:
        await asyncio.sleep(max(0.0, sent.due - time.monotonic()))
        try:
            request = _get(self._base, sent.path, self._paths.headers)
            response = await asyncio.wait_for(request, TIMEOUT_S)
        except TimeoutError:
            sent.took_s = TIMEOUT_S
        except ERRORS:
            return
        else:
            sent.took_s = time.monotonic() - sent.due
            sent.is_success = response.is_success
