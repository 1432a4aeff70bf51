"""What tests of the GIL meter share: looks that are believed however late, and words to look at."""

from __future__ import annotations

import ctypes
import math
import os
from pathlib import Path
from typing import Any

import pytest

from offload.bench.target import interpreters
from offload.bench.telemetry import gil_sampler


@pytest.fixture
def believes_late_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the meter believe late looks: for what stays as it is, so that no look comes too late.

    With it a test needs no core that is free for the meter.
    """
    monkeypatch.setattr(gil_sampler, "LATE", math.inf)


@pytest.fixture
def no_other_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no other interpreter here: each would be started to say what it is."""
    for name in ("PATH", "PYENV_ROOT", "UV_PYTHON_INSTALL_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "no_pythons"))
    monkeypatch.setattr(interpreters, "FOLDER", tmp_path / "no_pythons")


class Word:
    """What a meter takes for a GIL of this process: locked and switched as the test says."""

    def __init__(self, locked: int = 0) -> None:
        self._values = (ctypes.c_uint64 * 2)(locked, 0)

    @property
    def facts(self) -> dict[str, Any]:
        """Tell of it as a server does."""
        place = {"pid": os.getpid(), "address": ctypes.addressof(self._values)}
        return {"gil_word": place}

    def change(self, locked: int, switches: int = 0) -> None:
        """Lock it or not, after so many more switches."""
        self._values[1] += switches
        self._values[0] = locked
