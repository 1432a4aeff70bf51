"""Checks before a load: its numbers, its driver, its target, and the limit of open files."""

from __future__ import annotations

import importlib
import importlib.util
import math
import re
import resource
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import psutil

from offload.errors import MachineError, UsageError
from offload.loads import HERE, Load, Message, Sender, mask_query
from offload.registry import catalog
from offload.registry.addresses import is_loopback


def check(load: Load, name: str, sender: Sender = HERE) -> ModuleType:
    """Return the driver's module; raise UsageError or MachineError, each with a remedy."""
    driver = importlib.import_module(f"offload.loads.{catalog.find_driver(name).name}")
    _check_numbers(load)
    _check_ability(load, driver, name)
    if sender.hosts and name != "builtin":
        raise UsageError(f"{name} cannot load from several hosts", "use driver=builtin")
    if driver.MAX_USERS is not None and load.users > driver.MAX_USERS:
        fix = "use fewer" if name == "builtin" else "use fewer, or driver=builtin"
        limit = f"{name} supports at most {driver.MAX_USERS} users"
        raise UsageError(f"users={load.users}: {limit}", fix)
    if not is_installed(driver):
        fix = f"{driver.INSTALL}, or use driver=builtin"
        raise MachineError(f"{name} is not installed", fix)
    if not sender.hosts:
        raise_open_files_limit(load.users)
    _check_target(load.url, sender.allow)
    return driver


def is_installed(driver: ModuleType) -> bool:
    """Whether a driver's TOOL is on PATH and its PACKAGE can be imported, if it has them."""
    package = getattr(driver, "PACKAGE", None)
    has_tool = driver.TOOL is None or shutil.which(driver.TOOL) is not None
    return has_tool and (package is None or importlib.util.find_spec(package) is not None)


def _check_target(url: str, allow: Sequence[str]) -> None:
    """Raise UsageError unless a URL's host is this machine, or one of the names in `allow`.

    This machine is loopback, or one of its addresses.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 80
    except ValueError as error:
        raise UsageError(f"url={mask_query(url)!r} is invalid: {error}") from None
    if parts.scheme not in ("http", "https") or not host or any(c <= " " for c in url):
        shown = mask_query(url).rpartition("@")[2]  # without user:password@, which has no // here
        raise UsageError(f"url={shown!r} is not an http URL", "write http://127.0.0.1:8000/")
    try:
        addresses = {str(found[4][0]) for found in socket.getaddrinfo(host, port)}
    except (OSError, UnicodeError):  # the latter for a name that IDNA cannot encode
        raise UsageError(
            f"url={mask_query(url)!r}: unknown host {host!r}", "check its name"
        ) from None
    own = {a.address for each in psutil.net_if_addrs().values() for a in each}
    name = f"[{host}]" if ":" in host else host  # as in a URL
    if name in allow or all(is_loopback(a) or a in own for a in addresses):
        return
    what = f"url={mask_query(url)!r} is not on this machine"
    raise UsageError(what, f"if the machine is yours, add allow={name}")


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


def _check_numbers(load: Load) -> None:
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


def _check_ability(load: Load, driver: ModuleType, name: str) -> None:
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


SPARE_DESCRIPTORS = 64  # file descriptors of a load tool besides its users' connections


def raise_open_files_limit(users: int) -> None:
    """Raise the soft limit, which tools inherit; raise MachineError if the hard one is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = users + SPARE_DESCRIPTORS
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise MachineError(f"users={users} need more than {hard} descriptors", "raise ulimit -n")
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
