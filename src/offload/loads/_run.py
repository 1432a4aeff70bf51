"""Running a load tool: started in a folder and a group of its own, watched, and always ended."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import IO

from offload.errors import MachineError
from offload.loads import Command, Load, Measured, Ran
from offload.loads._figures import checked
from offload.loads._preflight import check
from offload.registry import places

GRACE = 5.0  # s beyond the load and one timeout before a tool counts as hung
WARM_UP = 90.0  # s at most for a load that waits for every user
LONGEST = 3600.0  # s for a number of requests, which may take any time
POLL = 0.01  # s
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
VERSION = re.compile(r"\d+(\.\d+)+\S*")
OUTPUT = 1_000_000  # characters kept of what a tool says: more than siege ever does


def run(load: Load, name: str) -> Ran:
    """Run a load with a driver, once; one that hangs is killed, and what it said is kept."""
    driver = check(load, name)
    command: Command = driver.command(load)
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
        for file, text in command.files.items():
            path = Path(folder, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        argv = tuple(word.replace("{folder}", folder) for word in command.argv)
        added = {k: v.replace("{folder}", folder) for k, v in command.environment.items()}
        with Path(folder, "stdout").open("w+b") as out, Path(folder, "stderr").open("w+b") as err:
            cpu_s = _to_its_end(argv, added, out, err, _deadline(load))
            stdout, stderr = _text(out), _text(err)
    output = "\n".join(text for text in (_shown(stderr), _shown(stdout)) if text)
    if cpu_s is None:
        problem = f"{name} hung and was killed after {_deadline(load):.0f} s"
        measured = Measured(problem=problem)
    else:
        measured = checked(driver.parse(stdout, stderr, load), name)
    model = "open" if load.rate else "closed"
    return Ran(name, version(driver), argv, measured, cpu_s, output, model, hung=cpu_s is None)


def _to_its_end(
    argv: tuple[str, ...],
    added: Mapping[str, str],
    out: IO[bytes],
    err: IO[bytes],
    deadline: float,
) -> float | None:
    """Wait for the tool's end and give its CPU time in s; None when it had to be killed."""
    try:
        process = subprocess.Popen(
            (*_ends_with_us(), *argv),
            env={**os.environ, **places.import_path(), **added},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    except OSError as error:
        raise MachineError(f"{argv[0]} does not start: {error.strerror}") from error
    until = time.monotonic() + deadline
    try:
        while time.monotonic() < until:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                return usage.ru_utime + usage.ru_stime
            time.sleep(POLL)  # wait4 has no timeout
        return None
    finally:
        if process.returncode is None:  # siege does not always end by SIGTERM
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _ends_with_us() -> tuple[str, ...]:
    """Give the words that make the kernel kill the tool with this process, even by `kill -9`."""
    found = shutil.which("setpriv")
    return () if found is None else (found, "--pdeathsig", "KILL", "--")


def _deadline(load: Load) -> float:
    if load.each is not None:
        return WARM_UP + GRACE
    if load.seconds is None:
        return LONGEST
    if load.rate or load.warm or load.cycles or load.completions:
        window = (
            max(load.seconds, load.longest) if load.cycles or load.completions else load.seconds
        )
        return max(load.warm, WARM_UP) + window + load.timeout + GRACE
    return load.seconds + load.timeout + GRACE


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _shown(text: str) -> str:
    """Give a tool's words as it said them, without colours and control characters."""
    plain = "".join(c for c in COLOUR.sub("", text) if c.isprintable() or c in "\n\t")
    return (
        plain.strip("\n") if len(plain) <= OUTPUT else f"{plain[:OUTPUT]}\n... {len(plain)} in all"
    )


def version(driver: ModuleType) -> str | None:
    """Ask a tool for its version: the first number with a point in its answer."""
    if driver.TOOL is None:
        return str(driver.version())
    with tempfile.TemporaryDirectory() as home:  # siege writes to it even when asked for this
        try:
            said = subprocess.run(
                [driver.TOOL, getattr(driver, "ASKED_VERSION", "--version")],
                env={**os.environ, "HOME": home},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=10,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
    found = VERSION.search(said.stdout + said.stderr)
    return found and found[0]
