"""Let the process that started this server read its stacks, only while it asks for that.

Linux's Yama (kernel.yama.ptrace_scope=1, the default of Ubuntu) allows an ordinary user to read
the memory of descendants only, and a sampler is none of this process. Standard library only.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from socket import AF_UNIX, socket

SET_PTRACER = 0x59616D61  # of prctl; a kernel without Yama allows the same user anyway
TIMEOUT_S = 0.2  # s
_is_allowed = False


def address(pid: int) -> str:
    """Return the address on which process `pid` listens while it asks for permission."""
    return f"\0offload-tracer-{pid}"


def update() -> None:
    """Allow it if the process that started this server listens on its address; else revoke it."""
    global _is_allowed
    starter = os.environ.get("SERVER_DIES_WITH", "")
    if sys.platform != "linux" or not starter.isdecimal():
        return
    with suppress(OSError), socket(AF_UNIX) as connection:
        connection.settimeout(TIMEOUT_S)
        connection.connect(address(int(starter)))
        _allow(int(starter))
        _is_allowed = True
        return  # the end of the connection tells the other side that it is allowed
    if _is_allowed:
        _allow(0)
        _is_allowed = False


def _allow(pid: int) -> None:
    """Let process `pid` and its descendants read this process's memory; 0 revokes it."""
    from ctypes import CDLL, c_ulong

    CDLL(None).prctl(SET_PTRACER, c_ulong(pid), 0, 0, 0)
