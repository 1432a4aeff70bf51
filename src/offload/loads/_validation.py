"""What is asked of a load: whether its numbers make sense, and whether a driver can do it."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from types import ModuleType

from offload.errors import UsageError
from offload.loads import Load

ARRIVALS = ("uniform", "poisson")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")  # all whose answers have a body
NOT_NEGATIVE = ("seconds", "warm", "cycles", "completions", "think", "longest")
PLAIN = {  # what tools of one closed loop, from their start to their end, have not
    "rate": "open loop",
    "each": "warm-up of its own",
    "warm": "warm-up of its own",
    "cycles": "window within its load",
    "completions": "window within its load",
    "think": "think time",
    "ca": "check of certificates",
}
POSITIVE = ("rate", "users", "requests", "each", "timeout", "processes")


def check_numbers(load: Load) -> None:
    """Raise UsageError for what no driver could do."""
    for name in (*NOT_NEGATIVE, *POSITIVE):
        value = getattr(load, name)
        if value is not None and not 0 <= value < math.inf:
            raise UsageError(f"{name}={value}: not a number of at least 0")
        if value == 0 and name in POSITIVE:
            word = "at least 1 user must ask" if name == "users" else "must be more than 0"
            raise UsageError(f"{name}={value}: {word}")
    if load.seconds is None and load.requests is None and load.each is None:
        raise UsageError("a load without an end: give seconds= or requests=")
    if (load.requests or load.each) and (load.warm or load.cycles or load.completions):
        raise UsageError("a window with a warm-up is of seconds=, not of requests=")
    if load.rate and (load.requests or load.each or load.cycles or load.think):
        raise UsageError("rate= is an open loop: of seconds=, without cycles= or think=")
    if load.arrivals not in ARRIVALS:
        raise UsageError(f"arrivals={load.arrivals!r}: choose from {', '.join(ARRIVALS)}")
    if load.processes > load.users:
        raise UsageError(f"processes={load.processes}: more than {load.users} users")
    if load.method not in METHODS:
        raise UsageError(f"method={load.method!r}: choose from {', '.join(METHODS)}")
    if load.ca is not None and not Path(load.ca).is_file():
        raise UsageError(f"ca={load.ca!r} is no file: name the certificate of an authority")


def check_ability(load: Load, driver: ModuleType, name: str) -> None:
    """Raise UsageError for what this driver cannot do.

    Its LACKS has, for fields of a load that it must be given as they are by default, what it has
    not; METHODS what it can ask with; KEEPS says that it always keeps its connections.
    """
    lacks: dict[str, str] = getattr(driver, "LACKS", {})
    for f in fields(Load):
        if f.name in lacks and getattr(load, f.name) != f.default:
            raise UsageError(f"{name} has no {lacks[f.name]}: take driver=builtin")
    if load.method not in getattr(driver, "METHODS", METHODS):
        raise UsageError(f"{name} cannot {load.method}: take driver=builtin")
    if getattr(driver, "KEEPS", False) and not load.keep_alive:
        raise UsageError(f"{name} keeps its connections: take keep_alive=yes, or driver=builtin")
