"""Dataclasses in a file, one line of JSON each, which are validated when they are read."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from offload import files
from offload.engine.record import T, dataclass_from
from offload.errors import StorageError


def load(path: Path, cls: type[T]) -> list[T]:
    """Read the objects of a class; empty without the file. Raise StorageError if it is damaged."""
    try:
        text = files.read(path).decode()
        return [dataclass_from(cls, files.parse_json(line)) for line in text.splitlines()]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError) as error:
        raise StorageError(f"{path} cannot be read: {error}", "remove its damaged line") from error


def append(path: Path, value: Any) -> None:
    """Add a dataclass object to the file; raise StorageError."""
    try:
        with path.open("a") as file:
            file.write(json.dumps(asdict(value)) + "\n")
    except OSError as error:
        what = f"{path}: {error.strerror}"
        raise StorageError(what, "check permissions and disk space") from error
