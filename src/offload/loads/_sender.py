"""Where a load is sent from, and to which other machines it may be sent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sender:
    """The machines that send a load: `hosts` by SSH, or this machine if there are none.

    On this machine the load tool uses only `cpus` (none: all). `allow` are names of other machines
    to which the load may be sent: without them it may only be sent to this machine.
    """

    hosts: tuple[str, ...] = ()
    cpus: tuple[int, ...] = ()
    allow: tuple[str, ...] = ()


HERE = Sender()
