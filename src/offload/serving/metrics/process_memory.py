"""Read a process's own memory with a system call: a wrong address is an error, not a crash."""

from __future__ import annotations

import ctypes
import os

# A call through PyDLL keeps the GIL; a call through CDLL releases it.
_holding = ctypes.PyDLL(None, use_errno=True)
_releasing = ctypes.CDLL(None, use_errno=True)


class _Range(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("size", ctypes.c_size_t))


def read(address: int, size: int, holding_gil: bool = True) -> bytes:
    """Read `size` bytes; raise OSError if they are unreadable, AttributeError outside Linux.

    With `holding_gil` the calling thread holds the GIL while it reads, else it releases it.
    """
    buffer = ctypes.create_string_buffer(size)
    here, there = _Range(ctypes.addressof(buffer), size), _Range(address, size)
    call = (_holding if holding_gil else _releasing)["process_vm_readv"]
    call.restype = ctypes.c_ssize_t
    one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
    if call(os.getpid(), ctypes.byref(here), one, ctypes.byref(there), one, none) != size:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return buffer.raw
