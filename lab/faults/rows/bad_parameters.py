"""R9: bad parameters of requests and of commands: nan, inf, negative, huge, unknown, a newline."""

from __future__ import annotations

from lab.faults.clients import raw_requests
from lab.faults.commands import failing_commands
from lab.faults.commands.bench_process import BENCH
from lab.faults.commands.failing_commands import Case, offload
from lab.faults.row import Outcome, Row, Size
from lab.faults.servers.faulty_server import faulty
from offload.registry import catalog
from offload.units import seconds

HUGE = "9" * 5000
NUMBERS = ("nan", "inf", "-1", "9" * 20)
END = b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
LENGTH = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: %b\r\n\r\n"
REQUESTS = {
    "from=nan": b"GET /resources/?from=nan&to=1" + END,
    "to=inf": b"GET /resources/?from=0&to=inf" + END,
    "from=-2": b"GET /resources/?from=-2&to=-1" + END,
    "to=9...9": b"GET /resources/?from=0&to=" + HUGE.encode() + END,
    "unknown task": b"GET /no_such_task" + END,
    "escaped newline in a name": b"GET /noop%0Async" + END,
    "newline in a name": b"GET /noop\nsync" + END,
    "length nan": LENGTH % b"nan",
    "length inf": LENGTH % b"inf",
    "length -1": LENGTH % b"-1",
    "length 9...9": LENGTH % HUGE.encode(),
}
WHOLE, NUMBER, MATCH = "is not a whole number from 1", "is not a number from", "choose from"


def inject(server: str, size: Size) -> Outcome:
    """Send bad requests to a server and start it by bad commands, or start benchmarks by these."""
    cases = _of_bench() if server == BENCH else _of_server(server)
    wrong, slowest_s = failing_commands.check(cases)
    found = [
        f"{len(cases) - len(wrong)} of {len(cases)} commands: one line with the fix, "
        f"the slowest after {seconds(slowest_s)}"
    ]
    if server != BENCH:
        bad = _bad_responses(server)
        found.append(f"{len(REQUESTS) - len(bad)} of {len(REQUESTS)} requests: 4xx")
        wrong += bad
    return Outcome(not wrong, "; ".join([*found, *wrong]))


def _bad_responses(server: str) -> list[str]:
    """Send the bad requests; return those that were not refused by a response."""
    wrong = []
    with faulty(server, "ok", workers=2) as target:
        for name, request in REQUESTS.items():
            status = raw_requests.send(target.port, [request])
            if status is None or not 400 <= status < 500:
                wrong.append(f"{name}: {raw_requests.describe(status)}")
        good = raw_requests.send(target.port, [b"GET /" + END])
        calls = target.calls()
    if good != 200:
        wrong.append(f"a good request: {raw_requests.describe(good)}")
    return wrong if calls == 1 else [*wrong, f"the task was called {calls} times instead of once"]


def _of_server(server: str) -> list[Case]:
    """Return commands that start this server with bad parameters."""
    entry = catalog.find_server(server)
    name = entry.size or "backlog"
    run = f"run_server:{server},noop_sync"
    bad = {f"{run},{name}={number}": WHOLE for number in NUMBERS}
    bad |= {f"{run},{key}=nan": NUMBER for key in ("max_wait",) if key in entry.settings}
    bad |= {f"{run},{key}=inf": NUMBER for key in ("task_timeout",) if key in entry.settings}
    bad |= {
        f"run_server:{server},no_such_task": "task",
        f"run_server:{server},noop\nsync": "noop_sync",
        f"run_server:{server}\nx": server,
        f"{run},python=no\nsuch": "offload pythons",
    }
    return _cases(bad)


def _of_bench() -> list[Case]:
    """Return commands of the bench with bad parameters."""
    bad = {f"measure:threads/noop_sync,target={number}": "from 0.1 to 50" for number in NUMBERS}
    bad |= {f"run_load_test:users={number}": WHOLE for number in NUMBERS}
    bad |= {f"run_load_test:time={number}": "is not a time from" for number in NUMBERS}
    bad |= {f"run_load_test:rate={number}": NUMBER for number in NUMBERS}
    bad |= {f"run_upstream:latency={number}": "is not a time from" for number in NUMBERS}
    bad |= {
        "scale:threads/noop_sync,workers=-1..4": "is not a whole number",
        "scale:threads/noop_sync,workers=nan": "is not a whole number",
        "measure:threads/no_such_task": "task",
        "measure:threads/noop\nsync": "a case is SERVER/TASK",
        "measure:no\nserver/noop_sync": "server",
        "run_load_test:driver=no\nsuch": MATCH,
        "faults:no\nsuch": MATCH,
        "measure\nx:threads/noop_sync": "measure",
        "run_load_test:url=http://127.0.0.1/,body=@no\nsuch": "name a readable file",
    }
    return _cases(bad)


def _cases(bad: dict[str, str]) -> list[Case]:
    return [Case(repr(word), offload(word), 2, fix) for word, fix in bad.items()]


ROW = Row(
    "R9",
    "bad parameters: nan, inf, negative, huge, unknown task, newline in a name",
    "a command ends with exit code 2 and one line that contains the fix, a request with 4xx",
    inject,
    ("sync", "loop", "threads", "processes", "pipes", "pebble", "prefork", BENCH),
    others={
        "plain_threads": "a program without this project's code has its own responses",
        **dict.fromkeys(
            ("gunicorn_sync", "uvicorn_workers", "granian_asgi"),
            "its HTTP server has its own responses",
        ),
    },
)
