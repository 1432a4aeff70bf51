"""Loads: run a load tool. All drivers have the same input (`Load`) and result (`LoadResult`)."""

from __future__ import annotations

import importlib

from offload.loads._load import Arrivals, Command, Load, Window
from offload.loads._message import MASK, Message, parse_headers
from offload.loads._result import Figures, LoadResult, LoadRun, Response

__all__ = [
    "MASK",
    "Arrivals",
    "Command",
    "Figures",
    "Load",
    "LoadResult",
    "LoadRun",
    "Message",
    "Response",
    "Window",
    "check",
    "default_driver",
    "missing",
    "parse_headers",
    "run",
    "version",
]


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
