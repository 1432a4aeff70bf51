"""Versions of Python and packages: they must agree on all machines of a cluster."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from typing import Any

from offload import __version__ as offload_version
from offload.errors import MachineError
from pipepool import __version__ as pipepool_version

PACKAGES = ("dask", "distributed", "tornado", "msgpack", "cloudpickle")  # what messages depend on

Versions = Mapping[str, str]


def own() -> dict[str, str]:
    """Return the versions in this process."""
    found = {name: importlib.metadata.version(name) for name in PACKAGES}
    ours = {"offload": offload_version, "pipepool": pipepool_version}
    return {"Python": platform.python_version(), **found, **ours}


async def check(client: Any) -> None:
    """Raise MachineError if the scheduler or a worker has other versions than this process."""
    try:
        found = {"the scheduler": await client.run_on_scheduler(own)}
        found |= {f"worker {name}": each for name, each in (await client.run(own)).items()}
    except ImportError as error:
        what = f"the cluster cannot import {error.name or 'offload'}"
        raise MachineError(what, "install offload where its scheduler and workers run") from None
    here = own()
    for place, there in found.items():
        if (why := difference(here, there)) is not None:
            raise MachineError(f"{place} has {why}", "install the same versions on each machine")


def difference(here: Versions, there: Versions) -> str | None:
    """Return which versions differ, as `Python 3.12.1 instead of 3.13.5`; None if all agree."""
    differing = [name for name in here if there.get(name) != here[name]]
    words = [f"{name} {there.get(name, 'none')} instead of {here[name]}" for name in differing]
    return ", ".join(words) or None
