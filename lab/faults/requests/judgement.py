"""Compare the responses of a server with the requests that it received."""

from __future__ import annotations

from collections.abc import Iterator

from lab.faults.requests.exchange import Exchange
from offload.units import counted

SERVED, REFUSED, CLOSED = "served", "refused", "closed"  # what the first response was
EITHER = "either"


def outcome(exchange: Exchange) -> str:
    """Return what happened to the first request: served, refused, or closed without a response."""
    statuses = exchange.responses.statuses
    if not statuses:
        return CLOSED
    return SERVED if statuses[0] < 400 else REFUSED


def fault(exchange: Exchange, expected: str = EITHER) -> str:
    """Return what is wrong with the responses; empty if nothing is.

    `expected` is what must happen to the first request; REFUSED also allows closing the connection.
    """
    return next(_faults(exchange, expected), "")


def _faults(exchange: Exchange, expected: str) -> Iterator[str]:
    requests, statuses = exchange.requests, exchange.responses.statuses
    if exchange.responses.problem:
        yield exchange.responses.problem
    if not (exchange.has_ended or exchange.may_stay_open):
        yield "the connection was not closed"
    if len(statuses) > len(requests):
        yield f"{len(statuses)} responses to {counted(len(requests), 'request')}"
    if requests and requests[0].is_valid and not statuses:
        yield "no response to a valid request"
    for request, status in zip(requests, statuses, strict=False):
        if request.must_refuse and status < 400:
            yield f"a malformed request was served ({status})"
    first = outcome(exchange)
    if expected == SERVED and first != SERVED:
        yield f"a valid request was {first}"
    if expected == REFUSED and first == SERVED:
        yield "an invalid request was served"
