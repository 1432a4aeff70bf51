"""What a trial sends to a server: its loads, and before them single requests that must succeed."""

from __future__ import annotations

import hashlib
import html
import http.client
import math
import re
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from offload.engine.application import Application
from offload.engine.intervals import SLOW
from offload.engine.record import Baseline, CaseFacts, ServerFacts
from offload.engine.server import Server
from offload.errors import FAILED_REQUEST, StartError, TooSlowError
from offload.loads import Load, Window, mask_query, request_target
from offload.registry import catalog
from offload.suites import Request

TINY = 1e-9  # s
# Minima of a window:
WARM = 0.5  # s of load before it
WINDOW = 1.5  # s: more restarts narrow the interval more than longer windows do
CYCLES = 2.0  # responses per user
LONG_CYCLE_S = 5.0  # from which a probe has one response per user; a guess
# The same in s for blocks of several cases, in which only ratios of rates matter. LONGER_WINDOW is
# usual: one longer window takes less time than short windows in two rounds, and is as precise.
# SHORT_WINDOW is for runs with little time (`StoppingRule.has_short_rounds`).
SHORT_WARM, SHORT_WINDOW, LONGER_WINDOW = 0.15, 0.5, 1.0
# s without a successful request, after which a load stops; guesses
PATIENCE, PROBE_PATIENCE, MOST_PATIENCE = 10.0, 20.0, 45.0
LATE, SLOWER = 1.5, 3.0  # times the response time alone
LONGEST_PROBE = 10.0  # s of a probe whose users, one after the other, would take longer; a guess
SLOW_WARM = 1.5  # times the response time alone: every worker has responded
MOST_FEW = 4  # users of a load after one in which no request ended, or hardly any
# Responses in a window; FEW if a block has several cases, or below SLOW, FEWEST of a slow probe.
MANY, FEW, FEWEST = 20, 5, 2


def url(server: str, sent: Request) -> str:
    """Return the URL to which the users of a case send their request."""
    return server.rstrip("/") + sent.path


def window(
    url: str,
    case: CaseFacts,
    server: ServerFacts,
    before: Baseline,
    sent: Request,
    running: Server,
    beside_s: float | None,
    is_probe: bool = False,
    is_known: bool = False,
) -> Load:
    """Return a load with a warm-up and a window.

    `before` is the result of the first requests, `sent` the request of the users, and `running`
    the server. `beside_s` is None for a server that is measured alone: its window has at least
    CYCLES responses per user. With other servers in the block the window is shorter, because only
    the ratio of the rates matters: it lasts at least `beside_s` seconds and has at least FEW
    responses in total. `is_probe`: stop a load early that hardly has a response, and do not wait
    for responses of each user if that may take long. `is_known`: requests are known to be slow, so
    wait at most LONGEST_PROBE for them. On a serial server each user stops after its response, so
    that no backlog remains.
    """
    alone_s = before.alone_s or 0.0
    is_slow = case.users / max(cycle_s(case, server, before), TINY) < SLOW
    options: dict[str, Any] = {
        "waits_s": 0.0 if is_crowded(case, server) else None,
        "refills": not running.facts.get("serial"),
        "patience": patience_s(case.users, alone_s, is_probe),
    }
    is_long = case.users * alone_s > LONGEST_PROBE
    if is_known and is_long:
        options |= {"waits_s": LONGEST_PROBE, "longest": LONGEST_PROBE}
        slow = Window(warm=SLOW_WARM * alone_s, cycles=1.0, completions=FEW, **options)
        return replace(load(url, case, before, sent), seconds=WINDOW, window=slow)
    if beside_s is not None:
        short = Window(warm=SHORT_WARM, completions=FEW, **options)
        return replace(load(url, case, before, sent), seconds=beside_s, window=short)
    completions = FEW if is_slow else MANY
    if is_probe and FEW * alone_s > LONGEST_PROBE:
        completions = FEWEST
    cycles = 1.0 if is_probe and cycle_s(case, server, before) > LONG_CYCLE_S else CYCLES
    if is_probe and is_long:
        options |= {"waits_s": 0.0, "longest": LONGEST_PROBE}
    full = Window(warm=WARM, cycles=cycles, completions=completions, **options)
    return replace(load(url, case, before, sent), seconds=WINDOW, window=full)


def probe_users(users: int, cpu_s: float) -> int:
    """Return the users of a probe whose single request takes `cpu_s` of CPU: at most `users`.

    Threads share the CPU and the GIL, and end together: many users would have no response for long.

    >>> probe_users(64, 0.01), probe_users(64, 1.5), probe_users(2, 30.0)
    (64, 3, 1)
    """
    return users if users * cpu_s <= PATIENCE else max(1, int(PATIENCE / 2 / cpu_s))


def few_users(users: int, alone_s: float) -> int | None:
    """Return with how many users to repeat a load in which no request ended; None: not at all.

    None if all users one after the other would have had a response.
    """
    if users * alone_s <= PATIENCE or users == 1:
        return None
    return max(1, min(MOST_FEW, int(PATIENCE / 2 / alone_s)))


def patience_s(users: int, alone_s: float, is_probe: bool = False) -> float:
    """Return how long a load goes on in s without a successful request.

    Threads that share the GIL may all respond at the end of the work of all `users`. A probe does
    not wait for that: fewer users are tried after it.
    """
    if is_probe:
        return max(PATIENCE, min(PROBE_PATIENCE, SLOWER * alone_s), LATE * alone_s)
    return max(PATIENCE, min(MOST_PATIENCE, LATE * alone_s * users), LATE * alone_s)


def fix_length(load: Load, cycle_s: float) -> Load:
    """Return a load whose window has a fixed length: several hosts agree on its end in advance.

    It is long enough for the minimum numbers of responses, and its warm-up for two cycles of
    `cycle_s`, the expected time until every user has a response.
    """
    window = load.window
    responses_s = window.responses(load.users) * cycle_s / load.users
    seconds = min(window.longest, max(load.seconds or 0.0, responses_s))
    warm = min(window.longest, max(window.warm, 2 * cycle_s))
    return replace(load, seconds=seconds, window=Window(warm, waits_s=window.waits_s))


def long(url: str, case: CaseFacts, before: Baseline, sent: Request) -> Load:
    """Return the load of a long run: the seconds or the number of requests of the case."""
    return replace(load(url, case, before, sent), seconds=case.seconds, requests=case.requests)


def warm_up(url: str, case: CaseFacts, server: ServerFacts, sent: Request) -> Load:
    """Return the load before a long run, with as many users as the server has workers.

    More users would only wait. No request is in flight at its end, when the long run starts.
    """
    users = min(case.users, _workers(server))
    return replace(
        load(url, case, Baseline(), sent), users=users, processes=1, seconds=WARM, each=1
    )


def alone(url: str, case: CaseFacts, before: Baseline, sent: Request) -> Load:
    """Return a load of one user; the caller sets its number of requests."""
    one = load(url, case, Baseline(), sent)
    patient = Window(patience=patience_s(1, before.alone_s or 0.0))
    return replace(one, users=1, processes=1, seconds=None, keep_alive=False, window=patient)


def cycle_s(case: CaseFacts, server: ServerFacts, before: Baseline) -> float:
    """Return the expected time until every user has a response, which depends on the workers."""
    return (before.alone_s or 0.0) * max(1.0, case.users / _workers(server))


def _workers(server: ServerFacts) -> int:
    """Return the number of workers in all processes of a server; 1 if it has no such setting."""
    return server.all_workers or server.processes or 1


def longest_alone_s(case: CaseFacts, reported: Mapping[str, object]) -> float:
    """Return the longest time in s of a single request for which no user exceeds the timeout.

    `reported` is the server's ready line. Infinite if no user waits for another one, or if the
    number of requests that the server handles at once is unknown.
    """
    slots = _slots(reported)
    if slots is None or case.users <= slots:
        return math.inf
    return Load.timeout * slots / case.users


def check_timeout(case: CaseFacts, reported: Mapping[str, object], alone_s: float) -> None:
    """Raise TooSlowError if the users would wait for longer than the timeout of a request."""
    if alone_s <= longest_alone_s(case, reported):
        return
    slots = _slots(reported) or 1
    pool = f"{slots} worker{'s' if slots > 1 else ''}"
    takes = f"a request takes {alone_s:.3g} s, and {case.users} users wait for {pool}"
    response = f"a response would take {alone_s * case.users / slots:.0f} s"
    has_workers = catalog.find_server(case.server).size == "workers"
    more = f", more workers (x{case.users} after the server)" if has_workers else ""
    raise TooSlowError(
        f"{takes}: {response}, over the timeout of {Load.timeout:.0f} s",
        f"use fewer users (users={slots}){more}, or a shorter task",
    )


def waited_too_long(case: CaseFacts, before: Baseline, failed: Mapping[str, object]) -> bool:
    """Whether a load may have failed because its users waited for each other until the timeout."""
    return bool(failed.get("timeout")) and case.users * (before.alone_s or 0.0) > Load.timeout


def _slots(reported: Mapping[str, object]) -> int | None:
    """Return how many requests a server handles at once; None if that depends on the task."""
    if reported.get("serial"):
        return 1
    workers, processes = reported.get("workers"), reported.get("processes")
    if not isinstance(workers, int):
        return None
    return workers * (processes if isinstance(processes, int) else 1)


def is_crowded(case: CaseFacts, server: ServerFacts) -> bool:
    """Whether there are more users than the server's listen queue holds."""
    backlog = server.settings.get("backlog")
    return isinstance(backlog, int) and case.users > backlog


def load(url: str, case: CaseFacts, before: Baseline, sent: Request) -> Load:
    """Return a load in which the users of a case send its request to a URL.

    Responses are checked against the first body if it `is_stable`.
    """
    return Load(
        url,
        case.users,
        keep_alive=case.keep_alive,
        message=sent.message,
        processes=case.clients,
        response_sha256=before.body_sha256 if before.is_stable else None,
    )


GET = Request()
FIRST_REQUESTS = 5  # requests
ENOUGH_S = 1.0  # s after which no further request is sent to a slow task
TIMEOUT_S, LATER_S = 30.0, 5.0  # s, of a whole response, and of one after a load that failed
LARGEST_BODY = 256 << 20  # bytes of a body
SERVER_ERROR = 500  # status, from which a failure is the server's
TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
LONGEST_TEXT = 160  # characters of a response that an error shows


class FailedRequest(StartError):
    """A response that is not a success, or none within TIMEOUT_S.

    `application` is what it did then, if it did not respond.
    """

    kind = FAILED_REQUEST
    application: Application | None = None


class BadStatus(FailedRequest):
    """A response whose `status` is not 2xx."""

    def __init__(self, what: str, status: int) -> None:
        super().__init__(what)
        self.status = status


@dataclass(frozen=True)
class FirstResponses:
    """The median response time of a single request in s, and the first body.

    It is the median of `each_s`: without the first request, which may prepare the task, and took
    `first_s`. `stable`: all bodies were equal.
    """

    alone_s: float
    body: bytes
    body_sha256: str
    stable: bool
    each_s: tuple[float, ...] = ()
    first_s: float | None = None


def send_first_requests(
    url: str,
    times: int = FIRST_REQUESTS,
    request: Request = GET,
    longest_s: float = math.inf,
    timeout_s: float = TIMEOUT_S,
) -> FirstResponses:
    """Send `times` requests (2 or more), one after another; raise StartError unless they succeed.

    After the first one, the server may fail to respond to one of them: the load counts failures.
    A slow task has fewer requests: two are enough if they take ENOUGH_S, and one if it takes
    longer than `longest_s`.
    """
    taken: list[float] = []
    bodies: list[bytes] = []
    failed = 0
    began = time.monotonic()
    while len(taken) < 2 or (len(taken) < times and time.monotonic() - began < ENOUGH_S):
        start = time.perf_counter()
        try:
            bodies.append(get(url, request, timeout_s))
        except BadStatus as error:
            failed += 1
            if not taken or error.status < SERVER_ERROR:
                raise
            if failed > 1:
                which = f"{failed} of the first {len(taken) + failed} requests failed"
                raise BadStatus(f"{which}: {error.what}", error.status) from None
            continue
        taken.append(time.perf_counter() - start)
        if taken[0] > longest_s:
            break
    first = bodies[0]
    each_s = tuple(taken[1:] or taken)
    alone_s = statistics.median(each_s)
    digest = hashlib.sha256(first).hexdigest()
    return FirstResponses(alone_s, first, digest, len(set(bodies)) == 1, each_s, taken[0])


def get(url: str, request: Request = GET, timeout_s: float = TIMEOUT_S) -> bytes:
    """Send one request to a URL and return the body; raise StartError if it fails."""
    connection = open_connection(url, timeout_s)
    try:
        return send_request(connection, url, request)
    except TimeoutError as error:
        raise FailedRequest(f"{mask_query(url)} did not answer within {timeout_s:.0f} s") from error
    except (OSError, http.client.HTTPException) as error:
        raise StartError(f"{mask_query(url)} did not answer: {error!r}") from error
    finally:
        connection.close()


def describe_response(url: str, request: Request = GET) -> str:
    """Return whether a single request works after a load in which requests failed."""
    try:
        get(url, request, LATER_S)
    except BadStatus as error:
        return f"still fails ({error})"
    except StartError:
        return f"has no response within {LATER_S:.0f} s"
    return "works again"


def open_connection(url: str, timeout_s: float = TIMEOUT_S) -> http.client.HTTPConnection:
    """Return a connection to a URL's server; the first request opens it."""
    parts = urlsplit(url)
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)


def send_request(connection: http.client.HTTPConnection, url: str, request: Request) -> bytes:
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
    """Return the body of a response; raise StartError if it does not end.

    The timeout of a connection is that of each piece, so that an endless stream would never end.
    """
    until, pieces, size = time.monotonic() + TIMEOUT_S, list[bytes](), 0
    while piece := response.read1(1 << 20):
        pieces.append(piece)
        size += len(piece)
        if time.monotonic() > until:
            what = f"{mask_query(url)} sent {size} bytes within {TIMEOUT_S:.0f} s and did not end"
            raise FailedRequest(what, "measure a request whose response ends")
        if size > LARGEST_BODY:
            what = f"{mask_query(url)} sent more than {LARGEST_BODY >> 20} MiB"
            raise StartError(what, "measure a request with a smaller response")
    body = b"".join(pieces)
    if response.length:  # the rest is missing
        raise http.client.IncompleteRead(body, response.length)
    response.read()  # nothing, but then the connection may have another request
    return body


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT].rpartition(" ")[0] + " ..."


KEPT_REQUESTS = 6  # requests; the first one is not delayed, as on a new connection
LONGEST_STALLED_S = 0.25  # s: for a longer request a stall is irrelevant


def keep_alive_s(url: str, alone_s: float, request: Request = GET) -> float | None:
    """Return the median response time in s on one kept connection, without its first request.

    A response in two writes waits about 40 ms there: without TCP_NODELAY the server's kernel holds
    back the second write until the first one is acknowledged, and the client delays its
    acknowledgements, except on a new connection. None if the server closes the connection, or if
    `alone_s` is above LONGEST_STALLED_S: then no request is sent.
    """
    if alone_s > LONGEST_STALLED_S:
        return None
    taken: list[float] = []
    connection = open_connection(url)
    try:
        while len(taken) < KEPT_REQUESTS:
            start = time.perf_counter()
            send_request(connection, url, request)
            taken.append(time.perf_counter() - start)
            if connection.sock is None:  # closed by the server
                return None
    except (OSError, http.client.HTTPException, StartError):  # the load counts such failures
        return None
    finally:
        connection.close()
    return statistics.median(taken[1:])
