"""The loads of a case: its window, long run, warm-up and single requests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from offload.bench.records.record import Baseline, CaseFacts, ServerFacts
from offload.bench.stats.estimate import SLOW
from offload.bench.target.server import Server
from offload.errors import TooSlowError
from offload.loads import Load, Window
from offload.registry import catalog
from offload.suites import Request

TINY = 1e-9  # s
# Minima of a window:
WARM = 0.5  # s of load before it
WINDOW = 1.5  # s: more restarts narrow the interval more than longer windows do
CYCLES = 2.0  # responses per user
# The same in s for blocks of several cases, in which only ratios of rates matter. LONGER_WINDOW is
# usual: one longer window takes less time than short windows in two rounds, and is as precise.
# SHORT_WINDOW is for runs with little time (`time_budget.limits_rounds`).
SHORT_WARM, SHORT_WINDOW, LONGER_WINDOW = 0.15, 0.5, 1.0
MANY, FEW = 20, 5  # responses in a window; FEW if a block has several cases, or below SLOW


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
) -> Load:
    """Return a load with a warm-up and a window.

    `before` is the result of the first requests, `sent` the request of the users, and `running`
    the server. `beside_s` is None for a server that is measured alone: its window has at least
    CYCLES responses per user. With other servers in the block the window is shorter, because only
    the ratio of the rates matters: it lasts at least `beside_s` seconds and has at least FEW
    responses in total. On a serial server each user stops after its response, so that no backlog
    remains.
    """
    is_slow = case.users / max(cycle_s(case, server, before), TINY) < SLOW
    options = {
        "waits": not is_crowded(case, server),
        "refills": not running.facts.get("serial"),
    }
    if beside_s is not None:
        short = Window(warm=SHORT_WARM, completions=FEW, **options)
        return replace(load(url, case, before, sent), seconds=beside_s, window=short)
    completions = FEW if is_slow else MANY
    full = Window(warm=WARM, cycles=CYCLES, completions=completions, **options)
    return replace(load(url, case, before, sent), seconds=WINDOW, window=full)


def of_fixed_length(load: Load, cycle_s: float) -> Load:
    """Return a load whose window has a fixed length: several hosts agree on its end in advance.

    It is long enough for the minimum numbers of responses, and its warm-up for two cycles of
    `cycle_s`, the expected time until every user has a response.
    """
    window = load.window
    responses_s = window.responses(load.users) * cycle_s / load.users
    seconds = min(window.longest, max(load.seconds or 0.0, responses_s))
    warm = min(window.longest, max(window.warm, 2 * cycle_s))
    return replace(load, seconds=seconds, window=Window(warm, waits=window.waits))


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


def alone(url: str, case: CaseFacts, sent: Request) -> Load:
    """Return a load of one user; the caller sets its number of requests."""
    one = load(url, case, Baseline(), sent)
    return replace(one, users=1, processes=1, seconds=None, keep_alive=False)


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
    has_workers = "workers" in catalog.find_server(case.server).settings
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
