"""granian: the effect of a Rust server, by interface, response type, processes and threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from offload.suites import Audit, Case, Claim, Figure, Request, cases_of_claims

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

# The claims, for Python 3.10 and for 3.11

WHO, WHERE = "emmett-framework/granian", "benchmarks/README.md of granian 0.1.0, Python"
CONDITIONS = (
    "2 CPUs shared with the load tool, wrk for 15 s after a warm-up, the best of 16 to 128 users"
)
NEW = "this project", "a new row: newer Pythons than the published ones", "a newer Python is faster"
NOBODY = "no published figure"
IN = {"3.10": "", "3.11": ", 3.11"}  # suffix of claim names by Python version

# Name, sentence, two cases, and the ratios of their published rates in Python 3.10 and in 3.11.
PUBLISHED = (
    (
        "RSGI : ASGI, bytes",
        "RSGI has twice the rate of ASGI",
        ("ASGI bytes", "RSGI bytes"),
        (41222 / 21071, 32178 / 20896),
    ),
    (
        "RSGI : ASGI, str",
        "RSGI has twice the rate of ASGI",
        ("ASGI str", "RSGI str"),
        (45975 / 22005, 32492 / 21368),
    ),
    (
        "str : bytes, 80 kB",
        "a large str response is 18 times as fast as a large bytes response",
        ("RSGI bytes big", "RSGI str big"),
        (13073 / 700, 16162 / 933),
    ),
    (
        "granian : uvicorn h11",
        "granian is faster than uvicorn in pure Python; here one process each",
        ("h11", "ASGI one"),
        (22048 / 6934, 21456 / 12935),
    ),
    (
        "granian : httptools",
        "granian is slower than uvicorn with httptools; here one process each",
        ("httptools", "ASGI one"),
        (22048 / 27260, 21456 / 47019),
    ),
    (
        "realistic : none",
        "2 processes with 2 threads have 2 to 3 times the rate of 1 process with 1 thread",
        ("RSGI none", "RSGI bytes"),
        (40520 / 13852, 31501 / 15897),
    ),
    (
        "min : none",
        "1 process with more threads has 0.9 times the rate of 1 process with 1 thread",
        ("RSGI none", "RSGI min"),
        (12485 / 13852, 14649 / 15897),
    ),
    (
        "max : none",
        "2 processes with 3 threads have 2.5 times the rate of 1 process with 1 thread",
        ("RSGI none", "RSGI max"),
        (34122 / 13852, 39845 / 15897),
    ),
)

# Name, sentence, server, and the ratio of its published rates in two Python versions.
BETWEEN_PYTHONS = (
    ("3.11 : 3.10, RSGI", "Python 3.11 is slower than 3.10 with RSGI", "RSGI", 32083 / 40331),
    (
        "3.11 : 3.10, uvicorn h11",
        "Python 3.11 is nearly twice as fast as 3.10 with uvicorn in pure Python",
        "h11",
        12935 / 6934,
    ),
)
NEWER = (("3.14 : 3.11, RSGI", "RSGI"), ("3.14 : 3.11, uvicorn h11", "h11"))

AUDITS = (
    Audit(
        "rows of 128 users",
        WHO,
        f"{WHERE} 3.10",
        "rates of 128 users, with the mean response times that are published with them",
        (
            Figure("RSGI bytes", 41222, mean_s=2.902e-3),
            Figure("RSGI str", 45975, mean_s=2.56e-3),
            Figure("ASGI bytes", 21071, mean_s=5.948e-3),
            Figure("ASGI str", 22005, mean_s=5.663e-3),
            Figure("uvicorn h11", 6934, mean_s=18.385e-3),
            Figure("uvicorn httptools", 27260, mean_s=4.686e-3),
        ),
        users=128,
    ),
)


def claims(
    cases: Mapping[str, Case], versions: Mapping[tuple[str, str], Case]
) -> tuple[Claim, ...]:
    """Create the claims; `cases` is keyed by name, `versions` by server name and Python."""
    return (*_published(cases), *_compared(versions), *_newer(versions))


def _published(cases: Mapping[str, Case]) -> Iterator[Claim]:
    for name, statement, (one, other), ratios in PUBLISHED:
        for (python, mark), ratio in zip(IN.items(), ratios, strict=True):
            which = f"{name}{mark}", WHO, f"{WHERE} {python}", statement
            yield Claim(*which, cases[one], cases[other], ratio, conditions=CONDITIONS)


def _compared(versions: Mapping[tuple[str, str], Case]) -> Iterator[Claim]:
    for name, statement, server, ratio in BETWEEN_PYTHONS:
        which = name, WHO, f"{WHERE} 3.10 and 3.11", statement
        one, other = (versions[server, python] for python in IN)
        yield Claim(*which, one, other, ratio, conditions=CONDITIONS)


def _newer(versions: Mapping[tuple[str, str], Case]) -> Iterator[Claim]:
    for name, server in NEWER:
        one, other = versions[server, "3.11"], versions[server, "3.14"]
        yield Claim(name, *NEW, one, other, None, conditions=NOBODY)


CLAIMS = claims(
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
GROUPS = {
    "types": _at_all(TYPES),
    "uvicorn": _at_all((*UVICORN.values(), ONE)),
    "concurrency": _at_all([*CONCURRENCY.values()]),
    "pythons": tuple(VERSIONS.values()),
    "claimed": cases_of_claims(CASES, CLAIMS),
}
