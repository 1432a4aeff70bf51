"""The context variables whose values are sent with each task."""

from __future__ import annotations

import contextvars
import importlib
from collections.abc import Sequence
from typing import Any


class ContextVariables:
    """The context variables whose values are sent with each task."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._variables = [find_variable(path) for path in paths]

    def values(self) -> list[tuple[int, Any]]:
        """Return (position, value) of each variable that is set in the current context."""
        context = contextvars.copy_context()
        return [(i, context[v]) for i, v in enumerate(self._variables) if v in context]


def find_variable(path: str) -> contextvars.ContextVar[Any]:
    """Import a context variable by 'module:name'; raise ValueError if it is something else."""
    module, _, name = path.partition(":")
    found = getattr(importlib.import_module(module), name, None)
    if not isinstance(found, contextvars.ContextVar):
        raise ValueError(f"context={path!r} is not the 'module:name' of a context variable")
    return found
