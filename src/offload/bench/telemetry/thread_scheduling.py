"""The time slice that a thread asks the scheduler for: a short one is begun soon, and on time."""

from __future__ import annotations

import ctypes
import os
import platform
import struct

SHORT = 100_000  # ns, the least there is; the default is some 3 ms
NUMBERS = {"x86_64": 314, "aarch64": 274, "riscv64": 274}  # of the call sched_setattr
ATTRIBUTES = struct.Struct("=IIQiIQQQ")  # size, policy, flags, nice, priority, slice, 0, 0


def ask_for_short() -> bool:
    """Let this thread interrupt others at once when it wakes up; False where that is not to be had.

    It needs no rights. Linux has it since 6.12, older ones take the call and go on as before.
    """
    number = NUMBERS.get(platform.machine())
    if number is None or not hasattr(os, "sched_getscheduler"):
        return False
    if os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False  # the user has chosen what is to be
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    wanted = ATTRIBUTES.pack(ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, SHORT, 0, 0)
    call = ctypes.CDLL(None).syscall
    return bool(call(ctypes.c_long(number), 0, ctypes.c_char_p(wanted), 0) == 0)
