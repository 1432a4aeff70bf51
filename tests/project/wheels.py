"""The wheels of the toolkit and of pipepool, built once for all processes of a test run."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT


def build(factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the wheels by the names of their packages."""
    shared = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # whose folder is in that of the run
        shared = shared.parent
    folder = shared / "wheels"
    with (shared / "wheels.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _build(folder)
    return {path.name.partition("-")[0]: path for path in folder.glob("*.whl")}


def _build(folder: Path) -> None:
    """Build into a folder, which exists only if all are built."""
    part = folder.with_name("wheels.part")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        part,
    ]
    built = subprocess.run(
        [*command, ROOT, ROOT / "pipepool"], capture_output=True, text=True, timeout=200
    )
    assert built.returncode == 0, built.stderr
    part.rename(folder)
