"""FastAPI and Strawberry: a resolver that blocks the event loop, and five that do not."""

from __future__ import annotations

import json

from offload.suites import P50, Case, Claim, Request

TOOL = "ab"  # ab -c 10 -n 100
THREADS = 40  # in the framework's thread pool


def extract(body: bytes) -> str:
    """Extract the text from {"hello": text} or {"data": {field: text}}."""
    answer = json.loads(body)
    [text] = answer.get("data", answer).values()
    return str(text)


def _case(task: str, request: Request, slots: int | None = None) -> Case:
    return Case(
        "fastapi_strawberry",
        task,
        10,
        request=request,
        requests=100,
        in_quick={"task": task.replace("second", "tenth")},
        slots=slots,
    )


def _query(field: str) -> Request:
    return Request("/graphql", "POST", json.dumps({"query": f"{{ {field} }}"}))


PLAIN = _case("sleep_second_async", Request("/hello"))
NAIVE = _case("sleep_second_sync", _query("blocking"), 1)
ASYNC = _case("sleep_second_async", _query("awaited"))
POOL = _case("sleep_second_sync", _query("pooled"), THREADS)
WRAPPED = _case("sleep_second_sync", _query("wrapped"), THREADS)
REST = _case("sleep_second_sync", Request("/rest"), THREADS)

PUBLISHED = (PLAIN, NAIVE, ASYNC, POOL, WRAPPED)
CASES = (*PUBLISHED, REST)
GROUPS = {"published": PUBLISHED}

WHO, WHERE = "Chris927/fastapi-and-graphql-concurrency-testing", "README.md"
CONDITIONS = "one process, ab -c 10 -n 100, 1 s of sleep; ratios of medians"
DOCUMENTED = "fastapi/fastapi", "docs/en/docs/async.md, on routes in plain def"


def _claim(name: str, statement: str, other: Case, ratio: float, alike: bool = True) -> Claim:
    return Claim(
        name, WHO, WHERE, statement, PLAIN, other, ratio, P50, alike, conditions=CONDITIONS
    )


# Ratios of medians; the median of a plain GET was 1009 ms.
CLAIMS = (
    _claim(
        "naive GraphQL blocks",
        "a sync resolver blocks the event loop: ten users wait for each other",
        NAIVE,
        10068 / 1009,
        alike=False,
    ),
    _claim("async resolver", "a resolver that awaits keeps concurrency", ASYNC, 1012 / 1009),
    _claim("thread pool", "a sync function in a thread pool keeps concurrency", POOL, 1018 / 1009),
    _claim("make_async", "a wrapped sync resolver keeps concurrency", WRAPPED, 1021 / 1009),
    Claim(
        "def route",
        *DOCUMENTED,
        "a plain def route runs in a thread pool, and keeps concurrency",
        PLAIN,
        REST,
        None,
        P50,
        alike=True,
        conditions="no published figure",
    ),
)
