"""A user's own task: the function named by `package.module:function` or `file.py:function`."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import threading
import traceback
from pathlib import Path
from types import ModuleType

import catalog
from errors import UsageError

_LOADING = threading.Lock()  # two threads that resolve one file at once load it once


def load(where: str) -> ModuleType:
    """Import a module by its dotted name or its file; raise UsageError if that fails."""
    if where.endswith(".py"):
        return _file(Path(where))
    parts = where.split(".")
    if not all(part.isidentifier() for part in parts):
        raise UsageError(f"{where!r} is no module: a task of your own is package.module:function")
    if parts[0] == __package__:
        hint = f"name the file instead, path/to/{parts[-1]}.py:function"
        raise UsageError(f"{where!r} would be this project's own {parts[0]!r}: {hint}")
    if folder := os.environ.get("TASK_PATH"):
        _search_first(Path(folder).expanduser().resolve())
    try:
        return importlib.import_module(where)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a script may sys.exit
        if isinstance(error, ModuleNotFoundError) and _is_part(where, error.name):
            raise UsageError(f"no module {where!r}: give its folder (path=FOLDER)") from None
        raise import_failed(where, error) from None


def import_failed(where: str, error: BaseException) -> UsageError:
    """Word the error for a module that raised while it was imported, with file and line."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename[0] != "<"]
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown line"
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno}"
    text = " ".join(str(error).split())[:200]
    return UsageError(f"importing {where} raised {type(error).__name__}: {text} ({place}): mend it")


def _file(path: Path) -> ModuleType:
    path = path.expanduser().resolve()
    if path.parent == catalog.ROOT / "tasks":  # its folder on sys.path would hide the real xml
        return importlib.import_module(f"tasks.{path.stem}")
    # A name of its own, so that a file called tasks.py does not meet this package.
    name = f"_own_{path.stem}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"
    with _LOADING:
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise UsageError(f"{str(path)!r} cannot be imported: it must be a Python file")
        _search_first(path.parent)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
            del sys.modules[name]
            raise import_failed(str(path), error) from None
        return module


def _search_first(folder: Path) -> None:
    if sys.path[:1] != [str(folder)]:
        sys.path.insert(0, str(folder))


def _is_part(where: str, missing: str | None) -> bool:
    return missing is not None and f"{where}.".startswith(f"{missing}.")
