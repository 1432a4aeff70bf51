"""FastAPI and Strawberry: a resolver that blocks the loop, and four ways not to."""

from __future__ import annotations

import json

from suites import Case, Claim, Request
from suites._claim import P50

TOOL = "ab"  # ab -c 10 -n 100


def extract(body: bytes) -> str:
    """Take the one text out of {"hello": text} or {"data": {field: text}}."""
    answer = json.loads(body)
    [text] = answer.get("data", answer).values()
    return str(text)


def _case(task: str, request: Request) -> Case:
    quick = {"task": task.replace("second", "tenth")}
    return Case("fastapi_strawberry", task, 10, request=request, requests=100, in_quick=quick)


def _query(field: str) -> Request:
    return Request("/graphql", "POST", json.dumps({"query": f"{{ {field} }}"}))


PLAIN = _case("sleep_second_async", Request("/hello"))
NAIVE = _case("sleep_second_sync", _query("blocking"))
ASYNC = _case("sleep_second_async", _query("awaited"))
POOL = _case("sleep_second_sync", _query("pooled"))
WRAPPED = _case("sleep_second_sync", _query("wrapped"))

CASES = (PLAIN, NAIVE, ASYNC, POOL, WRAPPED)
GROUPS = {"published": CASES}

WHO, WHERE = "Chris927", "github.com/Chris927/fastapi-and-graphql-concurrency-testing"


def _claim(name: str, says: str, other: Case, ratio: float, alike: bool = True) -> Claim:
    return Claim(name, WHO, WHERE, says, PLAIN, other, ratio, P50, alike)


# Of the medians: that of plain GET was 1009 ms.
CLAIMS = (
    _claim(
        "naive GraphQL blocks",
        "a sync resolver holds the event loop: ten users wait for each other",
        NAIVE,
        10068 / 1009,
        alike=False,
    ),
    _claim("async resolver", "a resolver that awaits keeps concurrency", ASYNC, 1012 / 1009),
    _claim("thread pool", "a sync function in the thread pool keeps it", POOL, 1018 / 1009),
    _claim("make_async", "so does a wrapper around the sync resolver", WRAPPED, 1021 / 1009),
)
