"""A user's own task: the function named by `package.module:function` or `file.py:function`."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import importlib.machinery
import importlib.util
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from offload.errors import UsageError
from offload.registry import catalog, places, source

OURS = {"offload", "pipepool"}
_LOADING = threading.Lock()  # a file is loaded once, even by two threads at a time


def load(where: str) -> ModuleType:
    """Import a module by its dotted name or its file; raise UsageError if that fails."""
    if where.endswith(".py"):
        return _file(Path(where))
    parts = where.split(".")
    if not all(part.isidentifier() for part in parts):
        hint = "your own task is package.module:function or path/to/file.py:function"
        raise UsageError(f"{where[:200]!r} is neither a module nor a .py file", hint)
    if parts[0] in OURS:
        hint = f"use the file instead, path/to/{parts[-1]}.py:function"
        raise UsageError(f"{where!r} is this project's own {parts[0]!r}", hint)
    folder = places.task_folder()
    try:
        with _LOADING, _search_first(folder):
            return importlib.import_module(where)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a script may call sys.exit
        if isinstance(error, ModuleNotFoundError) and _is_part(where, error.name):
            raise UsageError(f"no module {where!r}", "add its folder (path=FOLDER)") from None
        raise import_failed(where, error) from None


def import_failed(where: str, error: BaseException, fix: str = "fix it") -> UsageError:
    """Return the error for a module whose import failed, with file and line."""
    trace = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in trace if not frame.filename.startswith("<")]
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown line"
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno}"
    text = " ".join(str(error).split())[:200]
    return UsageError(f"importing {where} raised {type(error).__name__}: {text} ({place})", fix)


def _file(path: Path) -> ModuleType:
    path = path.expanduser().resolve()
    if path.parent == (catalog.FOLDER / "tasks").resolve():  # on sys.path it would hide xml
        return importlib.import_module(f"offload.tasks.{path.stem}")
    # A unique module name, so that a file called tasks.py does not collide with this package.
    name = f"_own_{path.stem}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"
    with _LOADING:
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise UsageError(f"{str(path)!r} cannot be imported: it must be a Python file")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            with _search_first(path.parent):
                spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
            del sys.modules[name]
            raise import_failed(str(path), error, _remedy(path, error)) from None
        return module


def _remedy(path: Path, error: BaseException) -> str:
    """Return what to do if the import of a file fails: a package's module needs its dotted name."""
    if isinstance(error, ImportError) and error.name is None:
        nodes = ast.walk(source.parse(path))
        if any(isinstance(node, ast.ImportFrom) and node.level for node in nodes):
            return f"name it as a part of its package, package.{path.stem}:function"
    return "fix it"


@contextlib.contextmanager
def _search_first(folder: Path) -> Iterator[None]:
    """Put a user's folder first on sys.path permanently, and import from it first in the block.

    Inside the block its files hide already imported modules of the same name (queue.py, types.py),
    as if Python was started in that folder. The hidden modules are restored after the block, since
    other modules use them.
    """
    if sys.path[:1] != [str(folder)]:
        sys.path.insert(0, str(folder))
    names = {path.name.partition(".")[0] for path in folder.iterdir()} - OURS
    hidden = {name: sys.modules.pop(name) for name in names if _is_elsewhere(name, folder)}
    try:
        yield
    finally:
        sys.modules.update(hidden)


def _is_elsewhere(name: str, folder: Path) -> bool:
    """Whether a module is loaded from elsewhere, and the folder has one of the same name."""
    origin = getattr(getattr(sys.modules.get(name), "__spec__", None), "origin", None)
    if origin in (None, "built-in", "frozen") or folder in Path(origin).parents:
        return False
    return importlib.machinery.PathFinder.find_spec(name, [str(folder)]) is not None


def _is_part(where: str, missing: str | None) -> bool:
    return missing is not None and f"{where}.".startswith(f"{missing}.")
