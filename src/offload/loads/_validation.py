"""Checks of a load: valid numbers, and a driver that supports them."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from offload.errors import UsageError
from offload.loads import Load, Message

ARRIVALS = ("uniform", "poisson")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")  # those with a response body
NOT_NEGATIVE = ("seconds", "warm", "cycles", "completions", "think", "longest")
CLOSED_LOOP_ONLY = {  # fields that simple closed-loop tools do not support: names of the features
    "arrivals": "open loop",
    "each": "warm-up of its own",
    "warm": "warm-up of its own",
    "cycles": "window within its load",
    "completions": "window within its load",
    "think": "think time",
    "ca": "check of certificates",
}
WINDOW_FIELDS = ("warm", "cycles", "completions")
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110
SET_BY_TOOL = {"connection", "content-length", "host", "transfer-encoding"}
POSITIVE = ("rate", "users", "requests", "each", "timeout", "processes")


def check_numbers(load: Load) -> None:
    """Raise UsageError for a load that no driver can run."""
    settings = _settings(load)
    for name in (*NOT_NEGATIVE, *POSITIVE):
        value = settings.get(name)
        if value is not None and not 0 <= value < math.inf:
            raise UsageError(f"{name}={value}: must be a number of at least 0")
        if value == 0 and name in POSITIVE:
            rule = "must be at least 1" if name == "users" else "must be more than 0"
            raise UsageError(f"{name}={value}: {rule}")
    if load.seconds is None and load.requests is None and load.each is None:
        raise UsageError("the load has no end", "set seconds= or requests=")
    if (load.requests or load.each) and any(settings[name] for name in WINDOW_FIELDS):
        raise UsageError("a window with a warm-up needs seconds=, not requests=")
    if load.arrivals is not None:
        if load.requests or load.each or load.window.cycles or load.think:
            fix = "use time= instead of requests=, and omit think="
            raise UsageError("rate= is an open loop", fix)
        if load.arrivals.process not in ARRIVALS:
            known = ", ".join(ARRIVALS)
            raise UsageError(f"arrivals={load.arrivals.process!r}", f"choose from {known}")
    if load.processes > load.users:
        what = f"load_processes={load.processes}: more than {load.users} users"
        raise UsageError(what, "use more users, or fewer processes")
    if load.message.method not in METHODS:
        raise UsageError(f"method={load.message.method!r}", f"choose from {', '.join(METHODS)}")
    _check_headers(load.message)
    if load.ca is not None and not Path(load.ca).is_file():
        raise UsageError(f"ca={load.ca!r} is not a file", "name a CA certificate")


def _check_headers(message: Message) -> None:
    """Raise UsageError for headers that no tool can send; its message does not contain values."""
    names: set[str] = set()
    for name, value in message.headers.items():
        if not HEADER_NAME.fullmatch(name):
            raise UsageError(f"header {name!r}: invalid name", "write header='Name: value'")
        if name.lower() in SET_BY_TOOL:
            raise UsageError(f"header {name}: the load tool sets it", "omit it")
        if name.lower() in names:
            raise UsageError(f"header {name}: set twice", "set it once")
        if not (value.isascii() and value.isprintable()):
            raise UsageError(f"header {name}: its value is not printable ASCII", "encode its value")
        names.add(name.lower())


def check_ability(load: Load, driver: ModuleType, name: str) -> None:
    """Raise UsageError for a load that this driver cannot run.

    LACKS of a driver maps fields of a load or of its window, which must have their defaults, to the
    name of the missing feature. METHODS are the methods that it can send. With ALWAYS_KEEP_ALIVE it
    cannot open a new connection for every request.
    """
    lacks: dict[str, str] = getattr(driver, "LACKS", {})
    settings, defaults = _settings(load), _settings(Load(load.url))
    for field, feature in lacks.items():
        if settings[field] != defaults[field]:
            raise UsageError(f"{name} has no {feature}", "use driver=builtin")
    if load.message.method not in getattr(driver, "METHODS", METHODS):
        raise UsageError(f"{name} cannot send {load.message.method}", "use driver=builtin")
    if (check := getattr(driver, "check_load", None)) is not None:
        check(load)
    if getattr(driver, "ALWAYS_KEEP_ALIVE", False) and not load.keep_alive:
        raise UsageError(
            f"{name} always keeps connections alive", "use keep_alive=yes, or driver=builtin"
        )


def _settings(load: Load) -> dict[str, Any]:
    """Return the fields of a load, its message, its window and its arrivals by name."""
    rate = {} if load.arrivals is None else {"rate": load.arrivals.rate}
    return {**vars(load), **vars(load.message), **vars(load.window), **rate}
