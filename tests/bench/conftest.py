"""Fixtures for tests of the GIL sampler: late samples are accepted, and GILs are simulated."""

from __future__ import annotations

import ctypes
import math
import os
from pathlib import Path
from typing import Any

import pytest

from offload.engine import gil_sampler, server


@pytest.fixture
def accept_late_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the sampler accept late samples, for tests in which the sampled state does not change.

    Such a test does not need an idle core for the sampler.
    """
    monkeypatch.setattr(gil_sampler, "LATE", math.inf)


@pytest.fixture
def no_other_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide other interpreters: the tool would start each of them to read its version."""
    for name in ("PATH", "PYENV_ROOT", "UV_PYTHON_INSTALL_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "no_pythons"))
    monkeypatch.setattr(server, "PYTHONS_FOLDER", tmp_path / "no_pythons")


class SimulatedGil:
    """A simulated GIL of this process, which the test locks and switches."""

    def __init__(self, locked: int = 0) -> None:
        self._values = (ctypes.c_uint64 * 2)(locked, 0)

    @property
    def facts(self) -> dict[str, Any]:
        """The facts about it, in the format that servers report."""
        place = {"pid": os.getpid(), "address": ctypes.addressof(self._values)}
        return {"gil_address": place}

    def change(self, locked: int, switches: int = 0) -> None:
        """Add switches, then lock or unlock it."""
        self._values[1] += switches
        self._values[0] = locked
