"""A process's own memory, read by a system call, which refuses where a pointer would crash."""

from __future__ import annotations

import ctypes
import os

# A call by PyDLL keeps the GIL; one by CDLL gives it up meanwhile.
_holding = ctypes.PyDLL(None, use_errno=True)
_releasing = ctypes.CDLL(None, use_errno=True)


class _Piece(ctypes.Structure):
    _fields_ = (("begin", ctypes.c_void_p), ("size", ctypes.c_size_t))


def read(address: int, size: int, holding_gil: bool = True) -> bytes:
    """Read `size` bytes; raise OSError for what cannot be read, AttributeError outside Linux.

    With `holding_gil` the thread that asks holds the GIL while it reads, without it does not.
    """
    buffer = ctypes.create_string_buffer(size)
    here, there = _Piece(ctypes.addressof(buffer), size), _Piece(address, size)
    call = (_holding if holding_gil else _releasing)["process_vm_readv"]
    call.restype = ctypes.c_ssize_t
    one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
    if call(os.getpid(), ctypes.byref(here), one, ctypes.byref(there), one, none) != size:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return buffer.raw
