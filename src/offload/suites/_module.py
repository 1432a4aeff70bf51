"""A suite's module: its cases and claims, or one line that says what to mend in its file."""

from __future__ import annotations

import importlib
import traceback
from pathlib import Path
from types import ModuleType

from offload.errors import UsageError
from offload.registry import catalog, places

MUST = ("CASES", "GROUPS")
NO_DATA = {"__init__.py", "_claim.py", "_request.py", "_module.py"}  # which only say what there is


def load(name: str) -> ModuleType:
    """Import a suite by its name; raise UsageError for a mistake in its file, with the line."""
    path = catalog.find_suite(name).path
    try:
        module = importlib.import_module(f"offload.suites.{path.stem}")
    except Exception as error:  # noqa: BLE001 - a mistake may raise anything
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        where = f"{_place(path, error)} cannot be read ({said})"
        raise UsageError(f"{where}: mend or remove the file") from None
    if lacking := [what for what in MUST if not hasattr(module, what)]:
        lacks = f"{places.shown(path)} has no {' and no '.join(lacking)}"
        raise UsageError(f"{lacks}: define it, or begin the name of the file with _")
    return module


def _place(path: Path, error: Exception) -> str:
    """Give the file and line of the mistake: the last that is data of a suite."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{places.shown(Path(error.filename))}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [(Path(frame.filename).resolve(), frame.lineno) for frame in frames]
    own = [p for p in lines if p[0].parent == path.parent and p[0].name not in NO_DATA]
    file, line = own[-1] if own else (path, 1)
    return f"{places.shown(file)}:{line}"
