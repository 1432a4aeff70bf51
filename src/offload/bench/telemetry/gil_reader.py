"""GIL words of other processes: which a server tells of, and how they are read from outside."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SILENT = "this server does not tell where its GIL is"
REASONS = {
    errno.EPERM: "the kernel lets only a parent read a server's GIL (kernel.yama.ptrace_scope)",
    errno.ESRCH: "a process of the server is gone",
    errno.EFAULT: "a server's GIL is no longer where it was",
    errno.ENOSYS: "the kernel has no process_vm_readv",
}


@dataclass(frozen=True)
class Word:
    """Where a process has `locked`, an int32, and the count of its switches 8 bytes on."""

    pid: int
    address: int


class Unavailable(Exception):
    """A GIL cannot be read; one line says why."""


def told(facts: Mapping[str, object]) -> tuple[Word, ...]:
    """Give the words of the GILs that a server's tasks need: its workers', else its own.

    Raises Unavailable with the reason the server gave.
    """
    workers = facts.get("worker_gil_words")
    return tuple(_word(said) for said in (workers if isinstance(workers, list) else [facts]))


def _word(said: Mapping[str, object]) -> Word:
    word = said.get("gil_word")
    if not isinstance(word, dict):
        raise Unavailable(str(said.get("gil_word_why") or SILENT))
    return Word(int(word["pid"]), int(word["address"]))


class Reader:
    """Read all words at once, some 2 us each; raises Unavailable when one cannot be read."""

    def __init__(self, words: Sequence[Word]) -> None:
        library = ctypes.PyDLL(None, use_errno=True)  # not CDLL: for 1 us none waits for the GIL
        try:
            self._call = library["process_vm_readv"]
        except AttributeError:
            raise Unavailable("process_vm_readv is only in Linux") from None
        self._call.restype = ctypes.c_ssize_t
        self._values = (ctypes.c_uint64 * (2 * len(words)))()
        begin = ctypes.addressof(self._values)
        one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
        self._pieces = [
            (_Piece(begin + SIZE * place, SIZE), _Piece(word.address, SIZE))
            for place, word in enumerate(words)
        ]
        self._arguments = [
            (ctypes.c_int(word.pid), ctypes.byref(here), one, ctypes.byref(there), one, none)
            for word, (here, there) in zip(words, self._pieces, strict=True)
        ]

    def read(self) -> tuple[int, int]:
        """Give how many of the GILs are locked now, and how often they were switched so far."""
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


class _Piece(ctypes.Structure):
    _fields_ = (("begin", ctypes.c_void_p), ("size", ctypes.c_size_t))
