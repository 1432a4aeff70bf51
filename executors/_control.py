"""The words between a nursery and its zygote: records of one size, over a socket pair.

parent -> zygote   FORK token (with two descriptors), KILL token
zygote -> parent   HELLO threads pid, FAILED size (then a text), ENDED token status
"""

from __future__ import annotations

import ctypes
import struct
import sys

ASK = struct.Struct("=cQ")
TELL = struct.Struct("=cQq")
FORK, KILL = b"F", b"K"
HELLO, FAILED, ENDED = b"H", b"E", b"X"

PR_SET_PDEATHSIG = 1


def end_with_parent(number: int) -> None:
    """Get a signal when the parent ends (Linux): when its thread ends that began this process."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
