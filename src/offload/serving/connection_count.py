"""Count the network connections that a call opens, by an audit hook of this process."""

from __future__ import annotations

import sys
from collections.abc import Callable

_addresses: list[object] = []


def count_connections(call: Callable[[], object]) -> int:
    """Call a function; return how many connections to hosts it tried to open in Python.

    Libraries in C that open connections themselves are not seen. An audit hook cannot be removed:
    it makes later calls in this process slower.
    """
    sys.addaudithook(_hook)
    call()
    return len(_addresses)


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    # The address of a socket of this machine is a path, that of a host is a tuple.
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        _addresses.append(arguments[1])
