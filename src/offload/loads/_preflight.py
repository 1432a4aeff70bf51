"""Checks before a load: its numbers, its tool, its target."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import socket
from collections.abc import Sequence
from types import ModuleType
from urllib.parse import urlsplit

import psutil

from offload.errors import MachineError, UsageError
from offload.loads import HERE, Load, Sender, _descriptors, mask_query
from offload.loads._validation import check_ability, check_numbers
from offload.registry import catalog
from offload.registry.bind_address import is_loopback


def check(load: Load, name: str, sender: Sender = HERE) -> ModuleType:
    """Return the driver's module; raise UsageError or MachineError, each with a remedy."""
    driver = importlib.import_module(f"offload.loads.{catalog.find_driver(name).name}")
    check_numbers(load)
    check_ability(load, driver, name)
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
        _descriptors.raise_limit(load.users)
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
