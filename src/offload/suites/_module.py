"""Load the module of a suite, and report errors in it with file and line."""

from __future__ import annotations

import importlib
import traceback
from pathlib import Path
from types import ModuleType

from offload.errors import UsageError
from offload.registry import catalog, places

REQUIRED = ("CASES", "GROUPS")
NO_DATA = {"__init__.py", "_claim.py", "_load.py", "_module.py"}  # classes and functions only


def load(name: str) -> ModuleType:
    """Import a suite by its name; raise UsageError with the line if its file is invalid."""
    path = catalog.find_suite(name).path
    try:
        module = importlib.import_module(f"offload.suites.{path.stem}")
    except Exception as error:  # noqa: BLE001 - an import may raise anything
        message = f"{type(error).__name__}: {' '.join(str(error).split())}"
        where = f"{_place(path, error)} cannot be read ({message})"
        raise UsageError(where, "fix or remove the file") from None
    if missing := [what for what in REQUIRED if not hasattr(module, what)]:
        lacks = f"{places.display_path(path)} has no {' and no '.join(missing)}"
        raise UsageError(lacks, "define it, or start the file's name with _")
    return module


def _place(path: Path, error: Exception) -> str:
    """Return file and line of an error: the last frame in a file with data of a suite."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{places.display_path(Path(error.filename))}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [(Path(frame.filename).resolve(), frame.lineno) for frame in frames]
    own = [p for p in lines if p[0].parent == path.parent and p[0].name not in NO_DATA]
    file, line = own[-1] if own else (path, 1)
    return f"{places.display_path(file)}:{line}"
