"""Read the memory of another process, and explain a refusal (Linux)."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from pathlib import Path

import psutil

from offload.errors import MachineError, RunError, UsageError, UserError, escaped

YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
DEFAULT_SCOPE = "sudo sysctl kernel.yama.ptrace_scope=0, or run watch with sudo"
WITHOUT_GIL = "without_gil=yes watches the rest"  # a remedy for GILs that cannot be read

# Kinds of reasons for which a GIL cannot be read:
REFUSED = "refused"  # the kernel does not permit it
ENDED = "ended"  # the process has ended
STARTING = "starting"  # its interpreter does not exist yet
NOT_PYTHON = "not python"
UNSUPPORTED = "unsupported"  # another Python than CPython 3.11 or newer, or an unknown build

_ERRORS: dict[str, type[UserError]] = {
    REFUSED: MachineError,
    ENDED: RunError,
    STARTING: RunError,
    NOT_PYTHON: UsageError,
    UNSUPPORTED: MachineError,
}


class Unreadable(Exception):
    """The GIL of a process cannot be read: the kind of the reason, one line, and what to do.

    Control characters are escaped, because the program of a process may have any name.
    """

    def __init__(self, kind: str, message: str, remedy: str = "") -> None:
        message = escaped(message)
        super().__init__(f"{message}: {remedy}" if remedy else message)
        self.kind, self.message, self.remedy = kind, message, remedy

    def as_user_error(self) -> UserError:
        """Return the error with the exit code of this kind of reason."""
        return _ERRORS[self.kind](self.message, self.remedy)


class _Range(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("size", ctypes.c_size_t))


_library = ctypes.CDLL(None, use_errno=True)


def read(pid: int, address: int, size: int) -> bytes:
    """Return `size` bytes of a process's memory; raise Unreadable.

    The kernel copies them. The process is neither stopped nor changed.
    """
    buffer = ctypes.create_string_buffer(size)
    here, there = _Range(ctypes.addressof(buffer), size), _Range(address, size)
    try:
        call = _library["process_vm_readv"]
    except AttributeError:
        reason = "process_vm_readv exists only on Linux"
        raise Unreadable(UNSUPPORTED, reason, "run watch on Linux") from None
    call.restype = ctypes.c_ssize_t
    one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
    if call(pid, ctypes.byref(here), one, ctypes.byref(there), one, none) != size:
        raise explain(pid, ctypes.get_errno())
    return buffer.raw


def read_u64(pid: int, address: int) -> int:
    """Return an unsigned number of 64 bits, such as a pointer; raise Unreadable."""
    return int(struct.unpack("=Q", read(pid, address, 8))[0])


def explain(pid: int, number: int) -> Unreadable:
    """Return the reason for which the system refused to read from a process, by its errno."""
    if number in (errno.ESRCH, errno.ENOENT) or not psutil.pid_exists(pid):
        return Unreadable(ENDED, f"pid {pid} has ended")
    if number in (errno.EPERM, errno.EACCES):
        return _refusal(pid)
    if number == errno.ENOSYS:
        return Unreadable(UNSUPPORTED, "the kernel has no process_vm_readv", "run watch elsewhere")
    message = f"the memory of pid {pid} cannot be read ({os.strerror(number)})"
    return Unreadable(UNSUPPORTED, message, WITHOUT_GIL)


def _refusal(pid: int) -> Unreadable:
    """Return why the kernel denies access: the user, Yama's setting, or the process's rights."""
    what = f"the memory of pid {pid} may not be read"
    try:
        owner = psutil.Process(pid).uids().real
    except psutil.Error:
        return Unreadable(ENDED, f"pid {pid} has ended")
    if os.geteuid() not in (0, owner):
        who = _user_name(pid, owner)
        return Unreadable(REFUSED, f"{what}: it belongs to {who}", "run watch as that user or root")
    try:
        scope = int(YAMA.read_text())
    except (OSError, ValueError):
        scope = 0
    if scope and os.geteuid() != 0:
        return Unreadable(REFUSED, f"{what} (kernel.yama.ptrace_scope is {scope})", DEFAULT_SCOPE)
    remedy = "run watch as root, in a container with --cap-add=SYS_PTRACE"
    return Unreadable(REFUSED, f"{what}: the system denies access", remedy)


def _user_name(pid: int, owner: int) -> str:
    try:
        return f"user {psutil.Process(pid).username()}"
    except psutil.Error:
        return f"user {owner}"
