"""Loads: what a load tool sends, and what it measured: the same records for every driver."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from offload.loads._result import Figures, LoadResult, LoadRun, Response

__all__ = [
    "Command",
    "Figures",
    "Load",
    "LoadResult",
    "LoadRun",
    "Response",
    "check",
    "default_driver",
    "missing",
    "run",
    "version",
]


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
