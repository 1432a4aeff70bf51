"""requests or aiohttp: fetches that block a coroutine, run in threads, or are awaited."""

from __future__ import annotations

import json

from offload.suites import Audit, Case, Claim, Figure, Request

TOOL = "locust"  # its users keep their connections
WHO, WHERE = "an unpublished text", "author unknown; two rounds of locust"
CONDITIONS = "a Ryzen 5 7600 in WSL2, 100 users of locust, 2 workers, an upstream that sleeps"
USERS, PROCESSES = 100, 2
BLOCKED_USERS = 10  # with quick, on a blocked loop: seconds instead of minutes


def extract(body: bytes) -> str:
    """Extract the upstream's response from a route's response."""
    return str(json.loads(body)["answer"])


def _case(route: str, slots: int | None, seconds: float) -> Case:
    quick = {"users": BLOCKED_USERS} if route == "requests_async" else {}
    return Case(
        "fastapi_requests",
        "network_sync_local",
        USERS,
        keep_alive=True,
        request=Request(f"/{route}?seconds={seconds:g}"),
        in_quick=quick,
        slots=slots,
    )


ROUTES = ("requests_async", "requests_sync", "requests_to_thread_async", "aiohttp_async")
SLOTS = (1, 40, 16, None)  # per process: event loop, framework's threads, thread pool, unlimited
ROUND_1 = tuple(_case(*route, 0.3) for route in zip(ROUTES, SLOTS, strict=True))
ROUND_2 = tuple(_case(*route, 0.05) for route in zip(ROUTES, SLOTS, strict=True))

CASES = ROUND_1 + ROUND_2
GROUPS = {"round_1": ROUND_1, "round_2": ROUND_2}

# Published requests/s and mean response time in s, in the order of ROUTES.
RATES_1 = ((6.60, 11.498), (246.55, 0.373), (102.90, 0.890), (304.41, 0.302))
RATES_2 = ((76.54, 1.197), (1556.68, 0.059), (1113.16, 0.082), (1753.13, 0.052))


def _claims(
    cases: tuple[Case, ...], rates: tuple[tuple[float, float], ...], at: str, more: str
) -> tuple[Claim, ...]:
    blocking, sync, to_thread, awaited = (rate for rate, _ in rates)
    claims = (
        ("aiohttp", f"aiohttp is about {more} faster than requests in def", 1, 3, awaited / sync),
        ("blocking", "blocking in a coroutine is a horrible idea", 0, 1, sync / blocking),
        ("to_thread", "asyncio.to_thread is worth it", 0, 2, to_thread / blocking),
    )
    return tuple(
        Claim(
            f"{name}, {at}",
            WHO,
            WHERE,
            statement,
            cases[one],
            cases[other],
            ratio,
            conditions=f"{CONDITIONS} {at}",
        )
        for name, statement, one, other, ratio in claims
    )


def _audit(rates: tuple[tuple[float, float], ...], seconds: float, at: str) -> Audit:
    figures = tuple(
        Figure(route, rate, seconds, slots, mean_s)
        for route, (rate, mean_s), slots in zip(ROUTES, rates, SLOTS, strict=True)
    )
    statement = "each round had 2 workers"
    return Audit(f"2 workers, {at}", WHO, WHERE, statement, figures, USERS, PROCESSES)


CLAIMS = _claims(ROUND_1, RATES_1, "0.3 s", "20 %") + _claims(ROUND_2, RATES_2, "0.05 s", "10 %")
AUDITS = (_audit(RATES_1, 0.3, "0.3 s"), _audit(RATES_2, 0.05, "0.05 s"))
