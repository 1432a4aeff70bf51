"""Set the time of day for some programs while they run; the machine's clock is not changed.

A small library, which is compiled when it is needed, replaces the functions that read the time of
day. Programs that load it share the shift in a file. Their monotonic clocks are not affected,
as if an administrator or NTP had set the clock. (libfaketime 0.9.10 cannot be used: if it leaves
the monotonic clock alone, `time.sleep` of Python fails.)
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

from offload.errors import MachineError

COMPILERS = ("cc", "gcc", "clang")
COMPILE_S = 60.0
SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *shift;

__attribute__((constructor)) static void map_shift(void)
{
    const char *name = getenv("CLOCK_SHIFT_FILE");
    int file = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    void *page = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (page != MAP_FAILED)
        shift = page;
}

int clock_gettime(clockid_t which, struct timespec *now)
{
    int code = syscall(SYS_clock_gettime, which, now);
    if (code == 0 && shift != NULL && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE))
        now->tv_sec += *shift;
    return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec found;
    int code = clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return code;
}

time_t time(time_t *into)
{
    struct timespec found;
    if (clock_gettime(CLOCK_REALTIME, &found) != 0)
        return -1;
    if (into != NULL)
        *into = found.tv_sec;
    return found.tv_sec;
}
"""


class ShiftedClock:
    """A clock for programs that are started with its `environment`; its files are in a folder."""

    def __init__(self, folder: Path) -> None:
        """Compile the library; raise MachineError if that is not possible."""
        self._library, self._file = folder / "shifted_clock.so", folder / "shift"
        self._file.write_bytes(struct.pack("q", 0))
        source = folder / "shifted_clock.c"
        source.write_text(SOURCE)
        compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
        if compiler is None:
            raise MachineError("no C compiler was found", "sudo apt install gcc libc6-dev")
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(self._library), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["no message"])[0]
            raise MachineError(f"{compiler} failed: {why}", "sudo apt install libc6-dev")

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which a program uses this clock."""
        loaded = os.environ.get("LD_PRELOAD", "")
        preload = f"{self._library} {loaded}".strip()
        return {"LD_PRELOAD": preload, "CLOCK_SHIFT_FILE": str(self._file)}

    def set(self, seconds: int) -> None:
        """Set the difference from the machine's clock in seconds: positive is ahead of it."""
        with self._file.open("r+b", buffering=0) as file:  # in place: programs have mapped it
            file.write(struct.pack("q", seconds))
