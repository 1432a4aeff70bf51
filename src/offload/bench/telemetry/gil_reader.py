"""Read the GIL state of other processes at the addresses that a server reported."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NOT_REPORTED = "this server does not report the address of its GIL"
REASONS = {
    errno.EPERM: "only the parent process may read a server's GIL (kernel.yama.ptrace_scope)",
    errno.ESRCH: "a process of the server has ended",
    errno.EFAULT: "a server's GIL is no longer at its address",
    errno.ENOSYS: "the kernel has no process_vm_readv",
}


@dataclass(frozen=True)
class GilAddress:
    """The address of `locked`, an int32, in a process; the switch count is 8 bytes after it."""

    pid: int
    address: int


class Unavailable(Exception):
    """A GIL cannot be read; the message is the reason in one line."""


def gil_addresses(facts: Mapping[str, object]) -> tuple[GilAddress, ...]:
    """Return the addresses of the GILs of a server's tasks: its workers' GILs, or its own.

    Raise Unavailable with the reason that the server reported.
    """
    workers = facts.get("worker_gil_addresses")
    return tuple(
        _gil_address(process) for process in (workers if isinstance(workers, list) else [facts])
    )


def _gil_address(process: Mapping[str, object]) -> GilAddress:
    found = process.get("gil_address")
    if not isinstance(found, dict):
        raise Unavailable(str(process.get("gil_address_error") or NOT_REPORTED))
    return GilAddress(int(found["pid"]), int(found["address"]))


class Reader:
    """Read the state of all GILs in about 2 us each; raise Unavailable if one cannot be read."""

    def __init__(self, gils: Sequence[GilAddress]) -> None:
        # PyDLL does not release this process's GIL, unlike CDLL: the call takes only 1 us.
        library = ctypes.PyDLL(None, use_errno=True)
        try:
            self._call = library["process_vm_readv"]
        except AttributeError:
            raise Unavailable("process_vm_readv exists only on Linux") from None
        self._call.restype = ctypes.c_ssize_t
        self._values = (ctypes.c_uint64 * (2 * len(gils)))()
        start = ctypes.addressof(self._values)
        one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
        self._buffers = [
            (_Iovec(start + SIZE * index, SIZE), _Iovec(gil.address, SIZE))
            for index, gil in enumerate(gils)
        ]
        self._arguments = [
            (ctypes.c_int(gil.pid), ctypes.byref(here), one, ctypes.byref(there), one, none)
            for gil, (here, there) in zip(gils, self._buffers, strict=True)
        ]

    def read(self) -> tuple[int, int]:
        """Return the number of GILs that are locked now, and their total switches so far."""
        for arguments in self._arguments:
            if self._call(*arguments) != SIZE:
                number = ctypes.get_errno()
                raise Unavailable(REASONS.get(number) or os.strerror(number))
        values = self._values[:]
        locked = [value & 0xFFFFFFFF for value in values[::2]]
        if max(locked) > 1:
            raise Unavailable(f"layout not recognised: locked reads {max(locked)}")
        return sum(locked), sum(values[1::2])


SIZE = 16


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))
