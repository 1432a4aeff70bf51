"""granian: the effect of a Rust server, by interface, response type, processes and threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from offload.suites import Case, Request, _granian_claims, cases_of_claims

TOOL = "h2load"  # in place of wrk, which invents latencies
CPUS = 2  # as published, also on machines with more: the load tool uses the others
USERS = (16, 32, 64, 128)  # as published; the published rate is the best of these
QUICK = 64
CLIENTS = 2  # load processes: each sends at most 20,000 requests per second
SMALL, BIG = 10, 80_000  # characters in a response


def extract(body: bytes) -> str:
    """Return the body unchanged: bytes and str of the same size are identical on the wire."""
    return body.decode()


def _case(
    server: str,
    kind: str = "bytes",
    size: int = SMALL,
    settings: Mapping[str, object] | None = None,
) -> Case:
    request = Request(f"/{kind}/{size}")
    return Case(
        server,
        "noop_sync",
        QUICK,
        keep_alive=True,
        settings=settings or {},
        request=request,
        clients=CLIENTS,
        in_quick={"seconds": 5.0},
    )


# Processes and threads of each level. Each is measured in mode mt (runtime) and st (workers).
LEVELS = {"none": (1, 1), "min": (1, CPUS), "realistic": (CPUS, CPUS), "max": (CPUS, CPUS + 1)}


def _level(server: str, level: str, mode: str) -> Case:
    processes, threads = LEVELS[level]
    return _case(
        server, settings={"processes": processes, "runtime_threads": threads, "mode": mode}
    )


REALISTIC = {"processes": CPUS, "runtime_threads": CPUS, "mode": "mt"}
RSGI = {
    (kind, size): _case("granian_rsgi", kind, size, REALISTIC)
    for size in (SMALL, BIG)
    for kind in ("bytes", "str")
}
ASGI = {kind: _case("granian_asgi", kind, SMALL, REALISTIC) for kind in ("bytes", "str")}
UVICORN = {http: _case(f"uvicorn_{http}") for http in ("h11", "httptools")}
CONCURRENCY = {
    (server, level, mode): _level(server, level, mode)
    for server in ("granian_rsgi", "granian_asgi")
    for level in LEVELS
    for mode in ("mt", "st")
    if (level, mode) != ("realistic", "mt")  # already in TYPES
}

TYPES = (*RSGI.values(), *ASGI.values())
ONE = CONCURRENCY["granian_asgi", "none", "st"]  # one process with one thread, as uvicorn has

# The Python versions to compare, published (3.10, 3.11) and later, and the servers.
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
COMPARED = {"RSGI": RSGI["bytes", SMALL], "ASGI": ASGI["bytes"], **UVICORN}
VERSIONS = {
    (name, python): replace(case, python=python)
    for name, case in COMPARED.items()
    for python in PYTHONS
}


def _at_all(cases: Sequence[Case]) -> tuple[Case, ...]:
    return tuple(replace(case, users=users) for case in cases for users in USERS)


NONE, MIN, MAX = (CONCURRENCY["granian_rsgi", level, "mt"] for level in ("none", "min", "max"))
CASES = (
    *_at_all((*TYPES, *UVICORN.values(), *CONCURRENCY.values())),
    *VERSIONS.values(),
)

CLAIMS = _granian_claims.claims(
    {
        **{f"ASGI {kind}": case for kind, case in ASGI.items()},
        **{f"RSGI {kind}": RSGI[kind, SMALL] for kind in ("bytes", "str")},
        **{f"RSGI {kind} big": RSGI[kind, BIG] for kind in ("bytes", "str")},
        **UVICORN,
        "ASGI one": ONE,
        "RSGI none": NONE,
        "RSGI min": MIN,
        "RSGI max": MAX,
    },
    VERSIONS,
)
AUDITS = _granian_claims.AUDITS
GROUPS = {
    "types": _at_all(TYPES),
    "uvicorn": _at_all((*UVICORN.values(), ONE)),
    "concurrency": _at_all([*CONCURRENCY.values()]),
    "pythons": tuple(VERSIONS.values()),
    "claimed": cases_of_claims(CASES, CLAIMS),
}
