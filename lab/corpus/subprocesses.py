"""Subprocesses: each call starts another program."""

from __future__ import annotations

import asyncio
import functools
import subprocess
import sys
import tempfile
from pathlib import Path

STABLE = True
TIMEOUT = 30.0  # s
SORTED = 20_000  # lines
PROGRAM = "print(sum(n * n % 7 for n in range(200_000)))"


def true_program() -> str:
    """Run the smallest program, true, and wait until it exits."""
    return f"exit code {subprocess.run(['true'], timeout=TIMEOUT).returncode}"


def sort_program() -> bytes:
    """Sort 20,000 lines with the program sort, through pipes."""
    return _run(["sort", "-n"], _lines())[-2000:]


def python_program() -> bytes:
    """Run a Python without site packages that computes for about 20 ms."""
    return _run([sys.executable, "-I", "-S", "-c", PROGRAM])


def temporary_file() -> bytes:
    """Write 20,000 lines to a temporary file, and count its bytes and lines with wc."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lines"
        path.write_bytes(_lines())
        return b" ".join(_run(["wc", "-cl", str(path)]).split()[:2])


async def awaited_program() -> bytes:
    """Sort 20,000 lines with the program sort, awaited in a coroutine."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec("sort", "-n", stdin=pipe, stdout=pipe)
    out, _ = await asyncio.wait_for(process.communicate(_lines()), TIMEOUT)
    return out[-2000:]


def gzip_program() -> bytes:
    """Compress 20,000 lines with the program gzip, through pipes."""
    return _run(["gzip", "-cn"], _lines())[-2000:]


def checksum_program() -> bytes:
    """Compute the SHA-256 of 20,000 lines with the program sha256sum, through pipes."""
    return _run(["sha256sum"], _lines())


def _run(argv: list[str], content: bytes | None = None) -> bytes:
    return subprocess.run(
        argv, input=content, stdout=subprocess.PIPE, timeout=TIMEOUT, check=True
    ).stdout


@functools.cache
def _lines() -> bytes:
    return "".join(f"{n * 7919 % 99_991} line {n}\n" for n in range(SORTED)).encode()
