"""A user's own task: the function named by `package.module:function` or `file.py:function`."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import importlib.machinery
import importlib.util
import os
import signal
import sys
import sysconfig
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from offload import resource_limits
from offload.errors import UsageError, UserError
from offload.registry import catalog, entries, places

OURS = {"offload", "pipepool"}
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
EXIT_FIX = "exit only below `if __name__ == '__main__':`"
_LIBRARIES = tuple(
    {f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "purelib", "platlib")}
)
_LOADING = threading.Lock()  # a file is loaded once, even by two threads at a time


class _OsExit(SystemExit):
    """A module called os._exit while it was imported."""


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
    file = entries.module_file(where, [str(folder), *sys.path])
    try:
        with _LOADING, _search_first(folder), _as_program(where if file is None else str(file)):
            return importlib.import_module(where)
    except BaseException as error:  # noqa: BLE001 - a module may raise anything, even SystemExit
        if isinstance(error, ModuleNotFoundError) and _is_part(where, error.name):
            raise UsageError(f"no module {where!r}", "add its folder (path=FOLDER)") from None
        raise import_failed(where, error) from None


def import_failed(where: str, error: BaseException, fix: str = "") -> UserError:
    """Return the error for a module whose import failed, with the user's file and line."""
    if isinstance(error, UserError):
        return error
    text = " ".join(str(error).split())[:200]
    kind = type(error).__name__ + (f": {text}" if text else "")
    raised = f"called os._exit({text})" if isinstance(error, _OsExit) else f"raised {kind}"
    what = f"importing {where} {raised} ({_place(where, error)})"
    if (limit := resource_limits.machine_error(what, error)) is not None:
        return limit
    is_exit = isinstance(error, SystemExit | KeyboardInterrupt)
    return UsageError(what, fix or (EXIT_FIX if is_exit else "fix it"))


def _place(where: str, error: BaseException) -> str:
    """Return the file and line of an error: those of the user's code, not of a library."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    trace = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in trace if not frame.filename.startswith(("<", *_LIBRARIES))]
    own = [frame for frame in frames if frame.filename != __file__]
    if "null byte" in str(error):
        file = _imported_file(own[-1].line or "") if own else _file_of(where)
        if (place := _place_of_null_byte(file)) is not None:
            return place
    return f"{own[-1].filename}:{own[-1].lineno}" if own else str(_file_of(where) or where)


def _file_of(where: str) -> Path | None:
    return Path(where) if where.endswith(".py") else entries.module_file(where, sys.path)


def _place_of_null_byte(file: Path | None) -> str | None:
    """Return the file and line of the first null byte, which Python does not name."""
    try:
        before, found, _ = (file.read_bytes() if file else b"").partition(b"\0")
    except OSError:
        return None
    line = before.count(b"\n") + 1
    return f"{file}:{line}" if found else None


def _imported_file(line: str) -> Path | None:
    """Return the file of the first module that an import statement names."""
    words = line.replace(",", " ").split()
    is_import = len(words) > 1 and words[0] in ("import", "from")
    return entries.module_file(words[1], sys.path) if is_import else None


def _file(path: Path) -> ModuleType:
    path = path.expanduser().resolve()
    if path.parent == (catalog.FOLDER / "tasks").resolve():  # on sys.path it would hide xml
        return importlib.import_module(f"offload.tasks.{path.stem}")
    with _LOADING:
        name = _module_name(path)
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise UsageError(f"{str(path)!r} cannot be imported: it must be a Python file")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            with _search_first(path.parent), _as_program(str(path)):
                spec.loader.exec_module(module)
        except BaseException as error:  # noqa: BLE001 - as above
            del sys.modules[name]
            raise import_failed(str(path), error, _remedy(path, error)) from None
        return module


def _module_name(path: Path) -> str:
    """Return the name of a file's module: its own, by which processes that it starts import it.

    If that is the name of another module, such as types, it is a unique one.
    """
    name = path.stem
    known = sys.modules.get(name)
    is_free = known is None and name not in sys.stdlib_module_names | OURS
    if name.isidentifier() and (is_free or getattr(known, "__file__", None) == str(path)):
        # Beside a package of the same name the import would find that.
        found = importlib.machinery.PathFinder.find_spec(name, [str(path.parent)])
        if found is not None and found.origin == str(path):
            return name
    return f"_own_{name}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"


def _remedy(path: Path, error: BaseException) -> str:
    """Return what to do if the import of a file fails: a package's module needs its dotted name."""
    if isinstance(error, ImportError) and error.name is None:
        nodes = ast.walk(entries.parse_file(path))
        if any(isinstance(node, ast.ImportFrom) and node.level for node in nodes):
            return f"name it as a part of its package, package.{path.stem}:function"
    return ""


@contextlib.contextmanager
def _as_program(file: str) -> Iterator[None]:
    """Import a module as the only file of a program: in each server and command alike.

    sys.argv is `[FILE]` during the import and stays so. It cannot change how this process stops:
    os._exit raises SystemExit inside the block, and the handlers of stop signals are restored. A
    process that the module forks ends where its import ends.
    """
    sys.argv[:] = [file]
    importing, end = (os.getpid(), threading.get_ident()), os._exit

    def raise_exit(status: int) -> NoReturn:
        if (os.getpid(), threading.get_ident()) == importing and os._exit is raise_exit:
            raise _OsExit(status)
        end(status)

    handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    os._exit = raise_exit
    try:
        yield
    except BaseException as error:
        end_if_forked(importing[0], error)
        raise
    else:
        end_if_forked(importing[0])
    finally:
        os._exit = end
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():  # only the main thread can have changed them
            if signal.getsignal(number) is not handler and handler is not None:
                signal.signal(number, handler)


def end_if_forked(pid: int, error: BaseException | None = None) -> None:
    """End this process if a user's code has forked it from `pid`: it must not be a second server.

    The exit code is that of Python if nothing catches the error.
    """
    if os.getpid() == pid:
        return
    code = error.code if isinstance(error, SystemExit) else error
    os._exit(code & 0xFF if isinstance(code, int) else int(code is not None))


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
