"""Loads: run a load tool. All drivers have the same input (`Load`) and result (`LoadResult`)."""

from __future__ import annotations

import importlib

from offload.errors import MachineError
from offload.loads._load import (
    BODY_MARK,
    CLOSED_LOOP_ONLY,
    COUNT,
    HERE,
    MASK,
    NUMBER,
    Arrivals,
    Command,
    Figures,
    HostRun,
    Load,
    LoadResult,
    LoadRun,
    Message,
    Response,
    Sender,
    Window,
    body_facts,
    content_type,
    count_figures,
    has_secret,
    is_figure,
    mask_query,
    parse_headers,
    quantum_of_count,
    request_target,
    split_credentials,
)

__all__ = [
    "BODY_MARK",
    "CLOSED_LOOP_ONLY",
    "COUNT",
    "HERE",
    "MASK",
    "NUMBER",
    "Arrivals",
    "Command",
    "Figures",
    "HostRun",
    "Load",
    "LoadResult",
    "LoadRun",
    "Message",
    "Response",
    "Sender",
    "Window",
    "body_facts",
    "check",
    "content_type",
    "count_figures",
    "default_driver",
    "has_secret",
    "is_figure",
    "mask_query",
    "missing",
    "parse_headers",
    "quantum_of_count",
    "request_target",
    "run",
    "split_credentials",
    "version",
]


def run(load: Load, driver: str, sender: Sender = HERE) -> LoadRun:
    """Run a load once, to its end; raise the errors of `check`."""
    if sender.hosts:
        from offload.loads import hosts

        return hosts.run(load, driver, sender)
    from offload.loads import _run

    return _run.run(load, driver, sender)


def check(load: Load, driver: str, sender: Sender = HERE) -> None:
    """Raise UsageError or MachineError unless `driver` can run this load.

    The hosts of `sender` are not connected. `load.processes` is the number on each of them.
    """
    from offload.loads import _run

    _run.check(load, driver, sender)
    if sender.hosts:
        from offload.loads import hosts

        hosts.whole_load(load, len(sender.hosts))


def version(driver: str) -> str | None:
    """Return a driver's version, None if unknown; raise MachineError if its tool is missing."""
    from offload.loads import _run

    module = importlib.import_module(f"offload.loads.{driver}")
    if not _run.is_installed(module):
        raise MachineError(f"{driver} is not installed", f"{module.INSTALL}, or use driver=builtin")
    return _run.version(module)


def default_driver(published: str = "siege") -> str:
    """Return the default driver: the `published` one if it is installed, else builtin."""
    return published if missing(published) is None else "builtin"


def missing(driver: str) -> str | None:
    """Return a message with the install command if a driver's tool is missing, else None."""
    from offload.loads import _run

    module = importlib.import_module(f"offload.loads.{driver}")
    if _run.is_installed(module):
        return None
    return f"{driver} is not installed: {module.INSTALL}"
