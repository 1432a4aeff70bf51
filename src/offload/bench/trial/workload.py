"""The load of a case: its request, in a window of two cycles or in one long run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urljoin

from offload.bench.records.record import Baseline, CaseFacts, ServerFacts
from offload.bench.stats.estimate import SLOW
from offload.bench.target.server import Server
from offload.loads import Load, Message, Window
from offload.suites import Request

WARM = 0.5  # s of load, at least, that are not counted
WINDOW = 1.5  # s, at least: more restarts narrow the interval more than longer windows do
CYCLES = 2.0  # responses per user in a window, at least
SHORT_WARM, SHORT_WINDOW = 0.3, 0.5  # the same beside other servers, whose ratio matters
TINY = 1e-9  # s
MANY, FEW = 20, 5  # responses in a window, at least; FEW beside others, or below SLOW a second


def request(case: CaseFacts) -> Request:
    """Return what users of a case send."""
    given: Mapping[str, Any] = case.request or {}
    return Request(**given)


def url(server: str, case: CaseFacts) -> str:
    """Return the URL that users of a case send their request to."""
    return urljoin(server, request(case).path)


def window(
    url: str,
    case: CaseFacts,
    server: ServerFacts,
    before: Baseline,
    running: Server,
    is_beside_others: bool,
) -> Load:
    """Return a load with a warm-up and a window of at least two responses per user.

    Beside other servers of a block the window is shorter, for what matters there is the ratio.
    Serial servers: stop each user after its response, so that no backlog remains.
    """
    is_slow = case.users / max(cycle_s(case, server, before), TINY) < SLOW
    always = {
        "waits": not is_crowded(case, server),
        "refills": not running.facts.get("serial"),
    }
    if is_beside_others:
        short = Window(warm=SHORT_WARM, completions=FEW, **always)
        return replace(load(url, case, before), seconds=SHORT_WINDOW, window=short)
    completions = FEW if is_slow else MANY
    lasting = Window(warm=WARM, cycles=CYCLES, completions=completions, **always)
    return replace(load(url, case, before), seconds=WINDOW, window=lasting)


def long(url: str, case: CaseFacts, before: Baseline) -> Load:
    """Return a long run: so many seconds, or so many requests."""
    return replace(load(url, case, before), seconds=case.seconds, requests=case.requests)


def warm_up(url: str, case: CaseFacts, server: ServerFacts) -> Load:
    """Return a load before a long run, of as many users as keep its workers busy.

    The tool starts with none of them in flight, so that more of them would warm nothing.
    """
    workers = server.workers or server.settings.get("processes")
    users = min(case.users, workers if isinstance(workers, int) else 1)
    return replace(load(url, case), users=users, processes=1, seconds=WARM, each=1)


def alone(url: str, case: CaseFacts) -> Load:
    """Return a load of one user, whose number of requests is still to be set."""
    return replace(load(url, case), users=1, processes=1, seconds=None, keep_alive=False)


def cycle_s(case: CaseFacts, server: ServerFacts, before: Baseline) -> float:
    """Return the expected time until every user has a response, which depends on the workers."""
    return (before.alone_s or 0.0) * max(1.0, case.users / (server.workers or 1))


def is_crowded(case: CaseFacts, server: ServerFacts) -> bool:
    """Whether there are more users than the server's listen queue takes."""
    backlog = server.settings.get("backlog")
    return isinstance(backlog, int) and case.users > backlog


def load(url: str, case: CaseFacts, before: Baseline = Baseline()) -> Load:  # noqa: B008 - frozen
    """Return a load of a case's users, who send its request to a URL.

    Every response must have the first one's body if the task's bodies do not change.
    """
    sent = request(case)
    return Load(
        url,
        case.users,
        keep_alive=case.keep_alive,
        message=Message(sent.method, sent.body),
        processes=case.clients,
        response_sha256=before.body_sha256 if before.is_stable else None,
    )
