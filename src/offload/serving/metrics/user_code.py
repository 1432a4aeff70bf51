"""Which files and modules are the user's, and places in them. Standard library only."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

Place = tuple[str, str, int]  # function, file, line
_LIBRARIES = tuple(
    f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "purelib", "platlib")
)
# Frames of compiled modules have the path of the source when they were built.
_CYTHON = (".pyx", ".pxi", ".pxd")
_OURS = f"{Path(__file__).parents[2]}{os.sep}"
_SERVERS = f"{Path(_OURS, 'servers').resolve()}{os.sep}"


def is_users(file: str) -> bool:
    """Whether a file is neither of Python, nor an installed package, nor of this package."""
    if file.startswith(("<", _SERVERS, *_LIBRARIES)) or "-packages/" in file:
        return False
    if file.endswith(_CYTHON):
        return False
    is_ours = file.startswith(_OURS) and not file.startswith(f"{_OURS}tasks{os.sep}")
    return not is_ours and not file.endswith(("/bin/gunicorn", "/bin/uvicorn"))


def is_users_module(module: object) -> bool:
    """Whether an object in sys.modules, which may be of any type, is a module of the user."""
    if not issubclass(type(module), ModuleType):
        return False
    # A lazy module would be loaded by vars().
    file = object.__getattribute__(module, "__dict__").get("__file__")
    return isinstance(file, str) and is_users(file)


def other_frames() -> dict[int, FrameType]:
    """Return the frames of all other threads, by their identifiers.

    That of this thread has them as a variable. Such a cycle would keep the variables of all frames,
    such as large arrays, until a garbage collection.
    """
    frames = sys._current_frames()
    frames.pop(threading.get_ident(), None)
    return frames


def place_of(code: Any, line: int) -> Place:
    """Return a place; its file is relative to the folder of the user's imports."""
    return code.co_name, relative(code.co_filename), line


def relative(file: str) -> str:
    """Return a file relative to the folder of the user's imports, if it is in there."""
    return file.removeprefix(f"{Path(os.environ.get('TASK_PATH') or '.').resolve()}{os.sep}")
