"""The threads of BLAS and OpenMP in this process and its children, and their CPU time.

numpy's OpenBLAS, MKL and OpenMP start threads of their own, as many as there are CPUs. They are no
threads of Python, and have no name. A thread is one of theirs if it has a return address in such a
library on its stack, and none in Python: this is read when the process reports, so that a request
costs nothing. In a child, such as that of a pool, all threads but the main one are theirs: they may
still run, and a stack is only known while its thread waits. Linux and standard library only.
"""

from __future__ import annotations

import math
import os
import re
import struct
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import enumerate as python_threads
from threading import get_native_id
from time import monotonic, process_time, sleep  # imported by name: a task may replace them
from typing import Any

# What a file of each library is called, also in wheels, and the variable that sets its threads
LIBRARIES = (
    (re.compile(r"openblas"), "OpenBLAS", "OPENBLAS_NUM_THREADS"),
    (re.compile(r"libmkl_"), "MKL", "MKL_NUM_THREADS"),
    (re.compile(r"libblis"), "BLIS", "BLIS_NUM_THREADS"),
    (re.compile(r"lib(gomp|omp|iomp5)\b"), "OpenMP", "OMP_NUM_THREADS"),
)
PYTHON = re.compile(r"(^|/)(lib)?python[\d.]*t?[^/]*$")
STACK = 1 << 13  # bytes of a stack that are read
Range = tuple[int, int]
Libraries = tuple[dict[Range, int], list[Range]]  # addresses of their code, and of Python's
SPIN_S, PAUSE_S = 0.4, 0.02  # s: threads of OpenBLAS spin for up to about 0.2 s
# Of each thread of theirs, its process and the index of its library
_found: dict[int, tuple[int, int]] = {}
# The CPU time in s of these threads, and of the children; those that ended keep their last one
_used_s: dict[int, float] = {}
_children_s: dict[int, float] = {}
# Times, with the CPU time until then of these threads, and of the processes, in s
_readings: list[tuple[float, float, float]] = []


def since(start: float) -> dict[str, Any] | None:
    """Return the number of these threads, and their share of the CPU time since before `start`.

    `threads` are those of the process with most of them, and `processes` compute in such threads.
    None without such a library. The share is None without an earlier reading: each report makes
    one, and the first report comes before a load.
    """
    if sys.platform != "linux":
        return None
    pids = [os.getpid(), *_children(os.getpid())]
    libraries = {pid: found for pid in pids if (found := _libraries(pid)) is not None}
    _children_s.update({pid: _cpu_s_of_process(pid) for pid in pids[1:]})
    now_s = process_time() + math.fsum(_children_s.values())
    if not libraries:
        _readings.append((monotonic(), 0.0, now_s))
        return None
    _find(libraries)
    used_s = {thread: _cpu_s(pid, thread) for thread, (pid, _) in _found.items()}
    _used_s.update(used_s)
    total_s = math.fsum(_used_s.values())
    earlier = [reading for reading in _readings if reading[0] <= start]
    share = None
    if earlier and now_s > earlier[-1][2]:
        share = round((total_s - earlier[-1][1]) / (now_s - earlier[-1][2]), 4)
    _readings.append((monotonic(), total_s, now_s))
    del _readings[1:-64]
    busiest = max(used_s, key=lambda each: used_s[each], default=None)
    known = next(iter(libraries.values()))[0]
    _, name, variable = LIBRARIES[min(known.values()) if busiest is None else _found[busiest][1]]
    counts = Counter(pid for pid, _ in _found.values())
    return {
        "library": name,
        "variable": variable,
        "threads": max(counts.values(), default=0),
        "processes": len(counts),
        "share": share,
    }


def _children(pid: int) -> list[int]:
    """Return the processes that a process and its descendants have started."""
    found: list[int] = []
    for thread in _threads(pid):
        with suppress(OSError):  # it has ended, or this kernel has no such file
            path = f"/proc/{pid}/task/{thread}/children"
            found += map(int, Path(path).read_text(encoding="ascii").split())
    return [*found, *(each for child in found for each in _children(child))]


def _libraries(pid: int) -> Libraries | None:
    """Return the addresses of the code of libraries, and of Python; None without a library."""
    found: dict[Range, int] = {}
    python: list[Range] = []
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # such as no free file descriptor
        return None
    for line in lines:
        words = line.split(maxsplit=5)
        if len(words) < 6 or "x" not in words[1]:
            continue
        low, high = (int(each, 16) for each in words[0].split("-"))
        file_name = words[5].rpartition("/")[2]
        for index, (pattern, *_) in enumerate(LIBRARIES):
            if pattern.search(file_name):
                found[low, high] = index
                break
        else:
            if PYTHON.search(words[5]):
                python.append((low, high))
    return (found, python) if found else None


def _find(libraries: Mapping[int, Libraries]) -> None:
    """Add the threads of the libraries, and forget those that have ended.

    They spin after their last call, and can only be told from others once they wait.
    """
    ends = monotonic() + SPIN_S
    for thread, (pid, _) in [*_found.items()]:
        if not Path(f"/proc/{pid}/task/{thread}").exists():
            del _found[thread]
    for pid, (known, _) in libraries.items():
        if pid != os.getpid():
            _found.update({t: (pid, min(known.values())) for t in _threads(pid) if t != pid})
    if (own := libraries.get(os.getpid())) is not None:
        while _find_waiting(*own) and monotonic() < ends:
            sleep(PAUSE_S)


def _threads(pid: int) -> set[int]:
    try:
        return {int(name) for name in os.listdir(f"/proc/{pid}/task")}  # noqa: PTH208 - faster
    except OSError:  # it has ended
        return set()


def _find_waiting(libraries: dict[Range, int], python: list[Range]) -> bool:
    """Add the threads of the libraries that wait now; return whether unknown threads run."""
    pid = os.getpid()
    known = {each.native_id for each in python_threads()} | {get_native_id()}
    runs = False
    for thread in _threads(pid) - _found.keys() - known:
        words = _stack(thread)
        runs = runs or not words
        if any(low <= word < high for word in words for low, high in python):
            continue
        index = next(
            (
                index
                for word in words
                for (low, high), index in libraries.items()
                if low <= word < high
            ),
            None,
        )
        if index is not None:
            _found[thread] = pid, index
    return runs


def _stack(thread: int) -> tuple[int, ...]:
    """Return the program counter and the stack of a thread that waits; empty if it runs."""
    try:
        with open(f"/proc/self/task/{thread}/syscall", encoding="ascii") as file:  # noqa: PTH123
            *_, pointer, counter = file.read().split()
        memory = os.open("/proc/self/mem", os.O_RDONLY)
        try:
            stack = os.pread(memory, STACK, int(pointer, 16))
        finally:
            os.close(memory)
    except (OSError, ValueError, OverflowError):  # it runs or has ended, or this is not permitted
        return ()
    count = len(stack) // 8
    return int(counter, 16), *struct.unpack_from(f"{count}Q", stack)


def _cpu_s(pid: int, thread: int) -> float:
    try:
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:  # noqa: PTH123
            return int(file.read().split()[0]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _cpu_s_of_process(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0
