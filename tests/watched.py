"""Real processes to watch: each prints a line when it does what its name describes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from offload.registry import places
from tests import ROOT
from tests.waiting import read_line

BUSY = "print(flush=True)\nwhile True: pass"
SLEEPING = "import time; print(flush=True); time.sleep(60)"
# a process whose name clears a terminal, and has two lines
HOSTILE_NAME = r"""
import ctypes, time
ctypes.CDLL(None).prctl(15, b"a\x1b[2J\nb", 0, 0, 0)  # PR_SET_NAME
print(flush=True)
time.sleep(60)
"""
# 10 ms of Python, then 10 ms or more of hashing, which releases the GIL
HASHING = """
import hashlib
from time import monotonic
print(flush=True)
data = bytes(1 << 20)
while True:
    until = monotonic() + 0.01
    while monotonic() < until: pass
    until = monotonic() + 0.01
    while monotonic() < until: hashlib.sha256(data)
"""
# the main thread sleeps, and another one wakes up a thousand times a second
RESTLESS_THREAD = """
import threading, time
def wake():
    while True: time.sleep(0.001)
threading.Thread(target=wake, daemon=True).start()
print(flush=True)
time.sleep(60)
"""
# it sleeps while short-lived children compute, one after another
SHORT_LIVED_CHILDREN = """
import os
print(flush=True)
for _ in range(1000):
    child = os.fork()
    if not child:
        sum(range(3_000_000))
        os._exit(0)
    os.waitpid(child, 0)
"""
# two children that sleep; a line on stdin ends the first, another line starts a third
PARENT = """
import os, subprocess, sys
words = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
def start():
    child = subprocess.Popen(words, stdout=subprocess.PIPE)
    child.stdout.readline()
    return child
children = [start(), start()]
print(children[0].pid, children[1].pid, flush=True)
sys.stdin.readline()
children[0].kill()
children[0].wait()
print(flush=True)
sys.stdin.readline()
children.append(start())
print(children[2].pid, flush=True)
sys.stdin.readline()
for child in children: child.kill(); child.wait()
"""


@contextmanager
def running(
    code: str, python: str = sys.executable, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run Python code; yield its process after its first line, whose text is in `first_line`."""
    process = subprocess.Popen(
        [python, "-c", code],
        cwd=ROOT,
        env={**os.environ, **places.import_path(python), **(environment or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        process.first_line = read_line(process.stdout)  # type: ignore[attr-defined]
        yield process
    finally:
        process.kill()
        process.communicate(timeout=20)
