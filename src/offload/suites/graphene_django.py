"""graphene and Django with sqlite: an async view under uvicorn, a sync view under gunicorn."""

from __future__ import annotations

import json

from offload.suites import MEMORY, Audit, Case, Claim, Figure, Request

TOOL = "ab"
WHO = "dima-kov/django-graphene-benchmarks"
WHERE = "readme.md, written for graphql-python/graphene-django#1394"
USERS, WRITTEN = 100, 10  # 100 in the published output of ab, 10 in the published command
REQUESTS = 1000
QUICK = {"users": 12, "requests": 100}  # users must exceed processes
FEW, MANY = 10, 500  # octopuses per response, as published: async view, sync view
WSGI, ASGI, STRAWBERRY = (
    "django_graphene_gunicorn",
    "django_graphene_uvicorn",
    "django_strawberry_uvicorn",
)


def extract(body: bytes) -> str:
    """Extract the octopuses from a response, as normalized JSON."""
    return json.dumps(json.loads(body)["data"]["octopuses"], sort_keys=True)


def _case(server: str, count: int, processes: int, joined: bool = True) -> Case:
    arguments = f"first: {count}" + ("" if joined else ", joined: false")
    query = f"{{ octopuses({arguments}) {{ id name octopusType {{ id name }} weight }} }}"
    return Case(
        server,
        "noop_sync",
        USERS,
        settings={"workers" if server == WSGI else "processes": processes},
        request=Request("/graphql/", "POST", json.dumps({"query": query})),
        requests=REQUESTS,
        in_quick=QUICK,
        slots=1 if server == WSGI else None,
    )


EQUAL = {
    (server, count, processes): _case(server, count, processes)
    for count in (FEW, MANY)
    for processes in (1, 4)
    for server in (WSGI, ASGI)
}
# The published comparison: few rows with a join, against many rows with one query per row.
ASYNC = EQUAL[ASGI, FEW, 1]
SYNC = {workers: _case(WSGI, MANY, workers, joined=False) for workers in (4, 9)}
NINE = _case(WSGI, FEW, 9)  # to compare memory
OTHER = {count: _case(STRAWBERRY, count, 1) for count in (FEW, MANY)}

CASES = (*SYNC.values(), *EQUAL.values(), NINE, *OTHER.values())
GROUPS = {
    "published": (ASYNC, *SYNC.values()),
    "equal": (*EQUAL.values(), NINE),
    "strawberry": tuple(OTHER.values()),
}

# Seconds for 1000 requests, sync / async: the headline, the first listing, "more tests".
HEADLINE, LISTED, MORE = 83.194 / 16.547, 24.465 / 13.670, 23.384 / 13.411
CONDITIONS = "sqlite, ab -n 1000, -c 10 in its command but -c 100 in its output, Django 5.0"
NEW = "a new row: another package with an async view"
BODIES = "async: 10 rows by one join, 974 bytes; sync: 500 rows by a query each, 47489 bytes"


def _published(name: str, workers: int, ratio: float) -> Claim:
    statement = "async wins"
    one, other = SYNC[workers], ASYNC
    return Claim(name, WHO, WHERE, statement, one, other, ratio, work=BODIES, conditions=CONDITIONS)


def _equal(count: int, processes: int) -> Claim:
    name = f"async, {count} rows, {processes} process{'es' if processes > 1 else ''} each"
    one, other = (EQUAL[server, count, processes] for server in (WSGI, ASGI))
    statement = "async wins, on equal work"
    return Claim(name, WHO, WHERE, statement, one, other, HEADLINE, conditions=CONDITIONS)


def _strawberry(count: int) -> Claim:
    statement = "async wins on equal work with strawberry-django's own async view, too"
    one, other = EQUAL[WSGI, count, 1], OTHER[count]
    name = f"async by strawberry, {count} rows"
    none = "no published figure"
    return Claim(name, "this project", NEW, statement, one, other, None, conditions=none)


CLAIMS = (
    _published("async, headline", 4, HEADLINE),
    _published("async, as listed", 4, LISTED),
    _published("async, against -w 9", 9, MORE),
    *(_equal(count, processes) for count in (FEW, MANY) for processes in (1, 4)),
    *(_strawberry(count) for count in (FEW, MANY)),
    Claim(
        "memory of -w 9",
        WHO,
        WHERE,
        "nine sync processes take nine times the memory of one async process",
        ASYNC,
        NINE,
        9.0,
        MEMORY,
        conditions=CONDITIONS,
    ),
)
# req/s by ab, mean response time, document length.
FIGURES = (
    Figure("async", 73.15, mean_s=1.367, body_bytes=974),
    Figure("sync", 40.87, mean_s=2.446, body_bytes=47489),
)
AUDITS = (
    Audit(
        "10 users",
        WHO,
        WHERE,
        "ten requests at a time, as in the published command",
        FIGURES,
        WRITTEN,
    ),
    Audit(
        "100 users, one query",
        WHO,
        WHERE,
        "100 requests at a time, as in the output of ab, and equal responses of both views",
        FIGURES,
        USERS,
    ),
)
