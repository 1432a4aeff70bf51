"""The warm-up: the first requests to a new server, which must all succeed (status 2xx)."""

from __future__ import annotations

import hashlib
import html
import http.client
import math
import re
import statistics
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from offload.errors import StartError
from offload.flags import FAILED_REQUEST
from offload.loads import mask_query, request_target
from offload.suites import Request

GET = Request()
TIMES = 5  # requests
ENOUGH = 1.0  # s after which no further request is sent to a slow task
TIMEOUT = 30.0  # s, of a whole response
LARGEST = 256 << 20  # bytes of a body
TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
LONGEST = 160  # characters of a response that an error shows


class FailedRequest(StartError):
    """A response that is not a success, or none within TIMEOUT."""

    kind = FAILED_REQUEST


class BadStatus(FailedRequest):
    """A response whose `status` is not 2xx."""

    def __init__(self, what: str, status: int) -> None:
        super().__init__(what)
        self.status = status


@dataclass(frozen=True)
class FirstResponses:
    """The median response time of a single request in s, and the first body.

    `stable`: all bodies were equal.
    """

    alone_s: float
    body: bytes
    body_sha256: str
    stable: bool


def send_first_requests(
    url: str, times: int = TIMES, request: Request = GET, longest_s: float = math.inf
) -> FirstResponses:
    """Send `times` requests (2 or more), one after another; raise StartError unless all succeed.

    A slow task has fewer requests: two are enough if they take ENOUGH seconds, and one if it takes
    longer than `longest_s`.
    """
    taken: list[float] = []
    bodies: list[bytes] = []
    began = time.monotonic()
    while len(taken) < 2 or (len(taken) < times and time.monotonic() - began < ENOUGH):
        start = time.perf_counter()
        bodies.append(get(url, request))
        taken.append(time.perf_counter() - start)
        if taken[0] > longest_s:
            break
    first = bodies[0]
    alone_s = statistics.median(taken[1:] or taken)
    return FirstResponses(alone_s, first, hashlib.sha256(first).hexdigest(), len(set(bodies)) == 1)


def get(url: str, request: Request = GET) -> bytes:
    """Send one request to a URL and return the body; raise StartError if it fails."""
    connection = connected(url)
    try:
        return answer(connection, url, request)
    except TimeoutError as error:
        raise FailedRequest(f"{mask_query(url)} did not answer within {TIMEOUT:.0f} s") from error
    except (OSError, http.client.HTTPException) as error:
        raise StartError(f"{mask_query(url)} did not answer: {error!r}") from error
    finally:
        connection.close()


def connected(url: str) -> http.client.HTTPConnection:
    """Return a connection to a URL's server; the first request opens it."""
    parts = urlsplit(url)
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT)


def answer(connection: http.client.HTTPConnection, url: str, request: Request) -> bytes:
    """Send one request on a connection; raise StartError with the response if it fails."""
    parts = urlsplit(url)
    message = request.message
    headers = {k: v for k, v in message.headers.items() if k.lower() != "content-type"}
    if message.content_type is not None:
        headers["Content-Type"] = message.content_type
    target = request_target(parts)
    body = None if message.body is None else message.body.encode()  # as load tools send it
    connection.request(message.method, target, body, headers)
    response = connection.getresponse()
    content = _body(response, url)
    if not 200 <= response.status < 300:
        location = response.getheader("Location")  # of a redirect
        text = f"Location {location}" if location else _first_line(content)
        text = message.mask(text, url)  # before it is cut
        what = f"{request.method} {target} " if request != GET else ""
        what = f"{mask_query(what)}answered {response.status}: {_cut(text)}"
        raise BadStatus(what, response.status)
    return content


def _first_line(content: bytes) -> str:
    """Return the title of a page, or the first line of another body."""
    text = content.decode(errors="replace").strip()
    if text.startswith("<") and (title := TITLE.search(text)):
        text = html.unescape(title[1]).strip()
    return (text.splitlines() or ["nothing"])[0]


def _body(response: http.client.HTTPResponse, url: str) -> bytes:
    """Return the body of a response; raise TimeoutError or StartError if it does not end.

    The timeout of a connection is that of each piece, so that an endless stream would never end.
    """
    until, pieces, size = time.monotonic() + TIMEOUT, list[bytes](), 0
    while piece := response.read1(1 << 20):
        pieces.append(piece)
        size += len(piece)
        if time.monotonic() > until:
            raise TimeoutError
        if size > LARGEST:
            what = f"{mask_query(url)} sent more than {LARGEST >> 20} MiB"
            raise StartError(what, "measure a request with a smaller response")
    body = b"".join(pieces)
    if response.length:  # the rest is missing
        raise http.client.IncompleteRead(body, response.length)
    response.read()  # nothing, but then the connection may have another request
    return body


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST].rpartition(" ")[0] + " ..."
