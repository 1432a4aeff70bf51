"""The load a tool generates and the result it reports: the same two records for every driver."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from offload.flags import Flag


@dataclass(frozen=True)
class Load:
    """A load: it lasts `seconds`, or `requests` in total, or `each` requests per user.

    Each of the `users` waits for a response before it sends its next request (a closed loop).
    Without `keep_alive` every request opens its own connection, as siege does by default.
    `timeout` is in seconds and covers one request from connecting to the last byte. With `each`,
    a user stops after that many responses once `seconds` are over, and the load ends when all
    users have stopped: a warm-up that leaves nothing in flight, for `builtin` only.

    With `warm`, `cycles` or `completions` the figures describe a window within the load, for
    `builtin` only. The window starts after `warm` seconds and when every user has had a response.
    It lasts `seconds`, and longer if needed for `cycles` responses per user and `completions` in
    total, but then at most `longest` seconds. Users keep sending until every request that was in
    flight at the window's end is answered. With `refills` off each user stops after that
    response, so that no backlog remains on a sequential server. With `waits` off the window
    neither starts nor ends by waiting for users: a user dropped by a full listen queue may need a
    minute to reconnect.

    `ca` is a CA certificate file that https trusts in addition to the system's; the default is
    UPSTREAM_CA. A user pauses `think` seconds on average before each further request, uniformly
    from 0.5 to 1.5 times that, seeded by `seed`. The users are divided among `processes`.

    With `rate`, in requests per second, the load is an open loop: requests arrive "uniform" or
    "poisson" (by `seed`) on at most `users` connections. A request that finds no free connection
    waits, and its response time counts from its scheduled start.
    """

    url: str
    users: int = 25
    seconds: float | None = 30.0
    requests: int | None = None
    each: int | None = None
    keep_alive: bool = False
    timeout: float = 30.0
    warm: float = 0.0
    cycles: float = 0.0
    completions: int = 0
    longest: float = 60.0
    waits: bool = True
    refills: bool = True
    method: str = "GET"
    body: str | None = None
    ca: str | None = None
    think: float = 0.0
    seed: int = 0
    processes: int = 1
    rate: float | None = None
    arrivals: str = "uniform"


@dataclass(frozen=True)
class Command:
    """How a driver is started: arguments, extra environment, files to write in its own folder.

    `{folder}` in `argv` and `environment` is replaced by that folder, which is removed at the end.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadResult:
    """What a load tool result. None means unknown; 0 is a counted zero.

    `completed` counts responses with a status below 400; `failed` counts the others by kind:
    refused, reset, timeout, tls, 4xx, 5xx, unfinished (no response when the time was up), other.
    `availability` is completed / finished requests, 0 to 1; unfinished requests are in neither.
    Times are in seconds, `rate` in completed requests per second; `rate_how` and `response_how`
    name the methods that gave rate and mean. Percentiles are of single requests; `histogram`
    counts them in mergeable buckets (`histogram.py`), with an error of at most 1 %. `notes`
    report where the tool deviated from the load.

    The window lasts from `window_began` to `window_ended`, in seconds of CLOCK_MONOTONIC.
    `rate_quantum` is the relative quantization error of the rate, since requests are whole: no
    interval is narrower. `in_flight` is the mean number of concurrent requests. In an open loop
    `offered` requests were scheduled within the window, and the other figures describe these
    requests; `late_*` is the delay with which the tool itself sent them. `driver_busy` is the
    share of one core that the busiest load process used within the window.
    """

    elapsed_s: float | None = None
    offered: int | None = None
    completed: int | None = None
    failed: Mapping[str, int | None] = field(default_factory=dict)
    availability: float | None = None
    rate: float | None = None
    rate_how: str | None = None
    rate_quantum: float | None = None
    in_flight: float | None = None
    window_s: float | None = None
    window_began: float | None = None
    window_ended: float | None = None
    response_mean_s: float | None = None
    response_how: str | None = None
    response_p50_s: float | None = None
    response_p90_s: float | None = None
    response_p95_s: float | None = None
    response_p99_s: float | None = None
    response_p999_s: float | None = None
    response_max_s: float | None = None
    histogram: Mapping[str, int] | None = None
    late_p99_s: float | None = None
    late_max_s: float | None = None
    driver_busy: float | None = None
    problem: str | None = None
    notes: tuple[Flag, ...] = ()


@dataclass(frozen=True)
class LoadRun:
    """A finished run of a load tool: the tool, its result, its raw output and its CPU time.

    `driver_cpu_s` is its CPU time in seconds. A tool that `hung` was killed and has no figures.
    """

    driver: str
    version: str | None
    argv: tuple[str, ...]
    result: LoadResult
    driver_cpu_s: float | None
    output: str
    model: str = "closed"
    hung: bool = False


def run(load: Load, driver: str) -> LoadRun:
    """Run a load once, to its end; raise the errors of `check`."""
    from offload.loads import _run

    return _run.run(load, driver)


def check(load: Load, driver: str) -> None:
    """Raise UsageError or MachineError unless `driver` can run this load on this machine."""
    from offload.loads import _preflight

    _preflight.check(load, driver)


def version(driver: str) -> str | None:
    """Return a driver's version, None if unknown; raise MachineError if its tool is missing."""
    from offload.loads import _preflight, _run

    module = _preflight.check(Load("http://127.0.0.1/", 1, keep_alive=True), driver)
    return _run.version(module)


def default_driver(published: str = "siege") -> str:
    """Return the default driver: the `published` one if it is installed, else builtin."""
    return published if missing(published) is None else "builtin"


def missing(driver: str) -> str | None:
    """Return a message with the install command if a driver's tool is missing, else None."""
    from offload.loads import _preflight

    module = importlib.import_module(f"offload.loads.{driver}")
    if _preflight.is_installed(module):
        return None
    return f"{driver} is not installed: {module.INSTALL}"
