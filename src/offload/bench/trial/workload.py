"""The loads of a case: a window, a long run, a warm-up and single requests."""

from __future__ import annotations

from dataclasses import replace

from offload.bench.records.record import Baseline, CaseFacts, ServerFacts
from offload.bench.stats.estimate import SLOW
from offload.bench.target.server import Server
from offload.loads import Load, Window
from offload.suites import Request

TINY = 1e-9  # s
# Minima:
WARM = 0.5  # s of load before a window
WINDOW = 1.5  # s: more restarts narrow the interval more than longer windows do
CYCLES = 2.0  # responses per user in a window
SHORT_WARM, SHORT_WINDOW = 0.3, 0.5  # s, for several cases in a block, whose ratio matters
MANY, FEW = 20, 5  # responses in a window; FEW for several cases, or below SLOW requests/s


def url(server: str, sent: Request) -> str:
    """Return the URL that users of a case send their request to."""
    return server.rstrip("/") + sent.path


def window(
    url: str,
    case: CaseFacts,
    server: ServerFacts,
    before: Baseline,
    sent: Request,
    running: Server,
    is_beside_others: bool,
) -> Load:
    """Return a load with a warm-up and a window of at least two responses per user.

    With other servers in the block the window is shorter, because only the ratio matters.
    Serial servers: stop each user after its response, so that no backlog remains.
    """
    is_slow = case.users / max(cycle_s(case, server, before), TINY) < SLOW
    always = {
        "waits": not is_crowded(case, server),
        "refills": not running.facts.get("serial"),
    }
    if is_beside_others:
        short = Window(warm=SHORT_WARM, completions=FEW, **always)
        return replace(load(url, case, before, sent), seconds=SHORT_WINDOW, window=short)
    completions = FEW if is_slow else MANY
    lasting = Window(warm=WARM, cycles=CYCLES, completions=completions, **always)
    return replace(load(url, case, before, sent), seconds=WINDOW, window=lasting)


def long(url: str, case: CaseFacts, before: Baseline, sent: Request) -> Load:
    """Return the load of a long run: the seconds or the number of requests of the case."""
    return replace(load(url, case, before, sent), seconds=case.seconds, requests=case.requests)


def warm_up(url: str, case: CaseFacts, server: ServerFacts, sent: Request) -> Load:
    """Return the load before a long run, with as many users as the server has workers.

    More users would only queue, and the long run starts without requests in flight.
    """
    workers = server.workers or server.settings.get("processes")
    users = min(case.users, workers if isinstance(workers, int) else 1)
    return replace(
        load(url, case, Baseline(), sent), users=users, processes=1, seconds=WARM, each=1
    )


def alone(url: str, case: CaseFacts, sent: Request) -> Load:
    """Return a load of one user; the caller sets its number of requests."""
    one = load(url, case, Baseline(), sent)
    return replace(one, users=1, processes=1, seconds=None, keep_alive=False)


def cycle_s(case: CaseFacts, server: ServerFacts, before: Baseline) -> float:
    """Return the expected time until every user has a response, which depends on the workers."""
    return (before.alone_s or 0.0) * max(1.0, case.users / (server.workers or 1))


def is_crowded(case: CaseFacts, server: ServerFacts) -> bool:
    """Whether there are more users than the server's listen queue holds."""
    backlog = server.settings.get("backlog")
    return isinstance(backlog, int) and case.users > backlog


def load(url: str, case: CaseFacts, before: Baseline, sent: Request) -> Load:
    """Return a load of a case's users, who send its request to a URL.

    Every response must have the first one's body if the task's bodies do not change.
    """
    return Load(
        url,
        case.users,
        keep_alive=case.keep_alive,
        message=sent.message,
        processes=case.clients,
        response_sha256=before.body_sha256 if before.is_stable else None,
    )
