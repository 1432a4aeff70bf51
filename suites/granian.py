"""granian: what Rust around Python brings, by interface, type of answer, processes and threads."""

from __future__ import annotations

from collections.abc import Mapping

from suites import Case, Claim, Request

TOOL = "h2load"  # in place of wrk, which makes latencies up
WHO, WHERE = "emmett-framework/granian", "benchmarks of granian 0.1.0, 2 CPUs, Python 3.10"
CPUS = 2  # as published, also where there are more: the load has the others
USERS = 64
CLIENTS = 2  # processes of the load: one asks for 20,000 answers a second at most
SMALL, BIG = 10, 80_000  # characters of an answer


def extract(body: bytes) -> str:
    """Take the answer as it is: bytes and str of one size are the same on the wire."""
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
        USERS,
        keep_alive=True,
        settings=settings or {},
        request=request,
        clients=CLIENTS,
        in_quick={"seconds": 5.0},
    )


# Processes and threads of a level; with the mode mt (runtime) or st (workers) of each.
LEVELS = {"none": (1, 1), "min": (1, CPUS), "realistic": (CPUS, CPUS), "max": (CPUS, CPUS + 1)}


def _level(server: str, level: str, mode: str) -> Case:
    processes, threads = LEVELS[level]
    return _case(server, settings={"processes": processes, "threads": threads, "mode": mode})


REALISTIC = {"processes": CPUS, "threads": CPUS, "mode": "mt"}
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
    if (level, mode) != ("realistic", "mt")  # which is among the types
}

TYPES = (*RSGI.values(), *ASGI.values())
CASES = (*TYPES, *UVICORN.values(), *CONCURRENCY.values())
ONE = CONCURRENCY["granian_asgi", "none", "st"]  # process and thread, as uvicorn's
GROUPS = {
    "types": TYPES,
    "uvicorn": (*UVICORN.values(), ONE),
    "concurrency": tuple(CONCURRENCY.values()),
    "claimed": (
        *TYPES,
        *UVICORN.values(),
        ONE,
        *(CONCURRENCY["granian_rsgi", level, "mt"] for level in ("none", "min")),
    ),
}


def _claim(
    name: str, says: str, one: Case, other: Case, ratio: float, alike: bool = False
) -> Claim:
    return Claim(name, WHO, WHERE, says, one, other, ratio, alike=alike)


NONE, MIN = (CONCURRENCY["granian_rsgi", level, "mt"] for level in ("none", "min"))
CLAIMS = (
    _claim(
        "RSGI : ASGI, bytes",
        "RSGI serves twice what ASGI does",
        ASGI["bytes"],
        RSGI["bytes", SMALL],
        41222 / 21071,
    ),
    _claim(
        "RSGI : ASGI, str",
        "RSGI serves twice what ASGI does",
        ASGI["str"],
        RSGI["str", SMALL],
        45975 / 22005,
    ),
    _claim(
        "str : bytes, 80 kB",
        "a large str is answered 18 times as fast as bytes",
        RSGI["bytes", BIG],
        RSGI["str", BIG],
        13073 / 700,
    ),
    _claim(
        "granian : uvicorn h11",
        "three times uvicorn in pure Python; here one process each",
        UVICORN["h11"],
        ONE,
        22048 / 6934,
    ),
    _claim(
        "granian : httptools",
        "less than uvicorn with httptools; here one process each",
        UVICORN["httptools"],
        ONE,
        22048 / 27260,
    ),
    _claim(
        "realistic : none",
        "two processes of two threads serve three times one of one",
        NONE,
        RSGI["bytes", SMALL],
        40520 / 13852,
    ),
    _claim("min : none", "more threads in one process do not help", NONE, MIN, 12485 / 13852),
)
