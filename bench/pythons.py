"""The interpreters a server can run in: by version as PYTHONS names it, on PATH, or by path."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from errors import UsageError


def find(word: str) -> str:
    """Give the path of the interpreter that `3.14`, `python3.14` or a path stands for.

    PYTHONS names interpreters once: PYTHONS=3.14=/opt/python3.14/bin/python+3.14t=... Raise
    UsageError when there is none.
    """
    path = named().get(word, word)
    found = shutil.which(Path(path).expanduser()) or shutil.which(f"python{word}")
    if found is None:
        fix = f"give its path, or set PYTHONS={word}=/path/of/python"
        raise UsageError(f"no Python at {path!r}: {fix}")
    return str(Path(found).absolute())  # a venv's python is a link that must not be resolved


def named() -> dict[str, str]:
    """Give the paths that PYTHONS names, by name; raise UsageError when it cannot be read."""
    words = [word for word in os.environ.get("PYTHONS", "").split("+") if word]
    pairs = [word.partition("=") for word in words]
    if not all(name and path for name, _, path in pairs):
        raise UsageError("PYTHONS is written 3.14=/path/of/python+3.14t=/path/of/another")
    return {name: path for name, _, path in pairs}
