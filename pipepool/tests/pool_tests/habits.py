"""Habits of applications and reports about other pools: scripts that run with both pools.

Each must print the same text with our executor and with the standard one, unless it says otherwise.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from pool_tests.helpers import CREATE, ENVIRONMENT

POOLS = ("pipe", "standard")
HEAD = """
import asyncio, atexit, contextlib, faulthandler, io, logging, logging.handlers, os, queue
import signal, subprocess, sys, threading, time
from concurrent.futures import ProcessPoolExecutor, wait
from multiprocessing import get_context, set_forkserver_preload, util
from pathlib import Path
from pipepool import PipeExecutor

"""
HEAD += (
    CREATE
    + """
def outcome(executor, function, *args):
    try:
        return executor.submit(function, *args).result(20)
    except Exception as error:
        return type(error).__name__
"""
)


class Habit(NamedTuple):
    """A script, what it prints, a module that it may preload, and options of the interpreter.

    `standard` is what it prints with the standard executor, where that differs; None: it is not run
    with that.
    """

    script: str
    expected: str
    module: str = ""
    standard: str | None = ""
    options: tuple[str, ...] = ()


def check(habit: Habit, pool: str, folder: Path) -> None:
    """Run a habit with a pool and compare what it prints."""
    for package in ("numpy", "gevent"):
        if f"import {package}" in habit.script:
            pytest.importorskip(package)
    expected = habit.expected if pool == "pipe" else habit.standard
    if expected is None:
        pytest.skip("this habit is not run with the standard executor")
    if habit.module:
        preloaded = habit.script.partition('["')[2].partition('"')[0]
        (folder / f"{preloaded}.py").write_text(habit.module)
    (folder / "script.py").write_text(HEAD + habit.script)
    printed = run([sys.executable, *habit.options, "script.py", pool], folder)
    assert printed == (expected or habit.expected)


def run(command: list[str], folder: Path, text: str = "") -> str:
    """Run a program as a user does: its output is buffered, its modules are beside it."""
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{folder}:{ENVIRONMENT['PYTHONPATH']}"}
    environment.pop("PYTHONUNBUFFERED", None)
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=60, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
