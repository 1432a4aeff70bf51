"""What a load tool is asked, and what it answers: the same two records for every driver."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from offload.flags import Flag


@dataclass(frozen=True)
class Load:
    """What is asked of a load tool: for `seconds`, for `requests` in all, or for `each` user.

    `users` are clients that each wait for an answer before they ask again (a closed loop).
    Without `keep_alive` every request opens a connection of its own, as siege does by default.
    `timeout` is in seconds, for one request from connecting to the last byte. With `each`, a
    user rests when it has had so many answers and `seconds` are over, and the load ends when all
    rest: a warm-up that leaves nothing in flight, for `builtin` only.

    With `warm`, `cycles` or `completions` the figures are of a window within the load, for
    `builtin` only. It begins when `warm` seconds are over and every user has had an answer; it
    lasts for `seconds` and until there were `cycles` answers per user and `completions` in all,
    though these two make it no longer than `longest` seconds. Users go on asking until all that
    was in flight at its end is answered; without `refills` each rests when it has its answer, which
    leaves no work behind on a server that serves in turn. Without `waits` no user is waited for,
    before or after: of a server whose listen queue drops some of them, they may wait a minute to
    connect again.

    `ca` is the file of an authority that https is verified by, beside the system's; without it
    UPSTREAM_CA names one. A user thinks for `think` seconds on average before each further request,
    evenly from half to one and a half of it, by `seed`. The users are divided over `processes`.

    With `rate`, in requests per second, it is an open loop: requests arrive "uniform" or "poisson"
    (by `seed`), on at most `users` connections. One that finds none free waits, and its time counts
    from when it was to begin.
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
    """How a driver is started: words, extra environment, and files to write in its own folder.

    `{folder}` in `argv` and `environment` stands for that folder; it is removed afterwards.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """What a load tool measured. None is not known; 0 is a zero that was counted.

    `completed` counts answers with a status below 400; `failed` has the others by kind: refused,
    reset, timeout, tls, 4xx, 5xx, unfinished (asked but not answered when time was up), other.
    `availability` is the share of finished requests that were completed, 0 to 1; unfinished ones
    are in neither. Times are in seconds, `rate` in completed requests per second; `rate_how` and
    `response_how` say how rate and mean were come by. Percentiles are of single requests;
    `histogram` counts them in buckets that can be merged (`histogram.py`), with at most 1 % error.
    `notes` say where the tool did other than requested.

    What is counted lies between `window_began` and `window_ended`, in seconds of CLOCK_MONOTONIC.
    `rate_quantum` is the share by which the rate may be off because requests are whole: no
    interval is narrower. `in_flight` counts the requests under way, on average. Of an open loop,
    `offered` requests were to begin within the window, and every figure but these is of them;
    `late` is by how much the tool itself began them late. `driver_busy` is the share of one core
    that the busiest load process used within the window.
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
class Ran:
    """A load tool that has run: what it was, what it measured, what it said and what it cost.

    `driver_cpu_s` is its CPU time in seconds; a tool that `hung` was killed and has no figures.
    """

    driver: str
    version: str | None
    argv: tuple[str, ...]
    measured: Measured
    driver_cpu_s: float | None
    output: str
    model: str = "closed"
    hung: bool = False


def run(load: Load, driver: str) -> Ran:
    """Run a load once, to its end; raise what `check` raises."""
    from offload.loads import _run

    return _run.run(load, driver)


def check(load: Load, driver: str) -> None:
    """Raise UsageError or MachineError, in one line, unless `driver` can run this load here."""
    from offload.loads import _preflight

    _preflight.check(load, driver)


def version(driver: str) -> str | None:
    """Give a driver's version, None when it does not tell; raise MachineError without its tool."""
    from offload.loads import _preflight, _run

    module = _preflight.check(Load("http://127.0.0.1/", 1, keep_alive=True), driver)
    return _run.version(module)


def default_driver(published: str = "siege") -> str:
    """Name the driver to use when none is asked for: the `published` one when it is installed."""
    return published if missing(published) is None else "builtin"


def missing(driver: str) -> str | None:
    """Say in one line that a driver's tool is not installed, and the command; None when it is."""
    from offload.loads import _preflight

    module = importlib.import_module(f"offload.loads.{driver}")
    if _preflight.is_installed(module):
        return None
    return f"{driver} is not installed: {module.INSTALL}"
