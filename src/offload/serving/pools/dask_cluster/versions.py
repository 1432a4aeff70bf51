"""Versions of Python and packages: they must agree on all machines of a cluster."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from distributed import Client

from offload import __version__ as offload_version
from offload.errors import MachineError
from offload.serving.pools.dask_cluster.broadcast import run_on_each
from pipepool import __version__ as pipepool_version

PACKAGES = ("dask", "distributed", "tornado", "msgpack", "cloudpickle")  # what messages depend on

Versions = Mapping[str, str]


def own() -> dict[str, str]:
    """Return the versions in this process."""
    found = {name: importlib.metadata.version(name) for name in PACKAGES}
    ours = {"offload": offload_version, "pipepool": pipepool_version}
    return {"Python": platform.python_version(), **found, **ours}


async def check_scheduler(client: Client) -> None:
    """Raise MachineError if the scheduler has other versions than this process."""
    with _importing():
        there = await client.run_on_scheduler(own)
    _compare("the scheduler", there)


async def check_workers(
    client: Client, workers: Collection[str], patience_s: float | None
) -> set[str]:
    """Return the workers that respond within `patience_s`; raise MachineError as above."""
    with _importing():
        found = await run_on_each(client, workers, patience_s, own)
    for name, there in found.items():
        _compare(f"worker {name}", there)
    return {*found}


@contextmanager
def _importing() -> Iterator[None]:
    """Raise MachineError if a process of the cluster cannot import a module."""
    try:
        yield
    except ImportError as error:
        what = f"the cluster cannot import {error.name or 'offload'}"
        raise MachineError(what, "install offload where its scheduler and workers run") from None


def _compare(place: str, there: Versions) -> None:
    if (why := difference(own(), there)) is not None:
        raise MachineError(f"{place} has {why}", "install the same versions on each machine")


def difference(here: Versions, there: Versions) -> str | None:
    """Return which versions differ, as `Python 3.12.1 instead of 3.13.5`; None if all agree."""
    differing = [name for name in here if there.get(name) != here[name]]
    words = [f"{name} {there.get(name, 'none')} instead of {here[name]}" for name in differing]
    return ", ".join(words) or None
