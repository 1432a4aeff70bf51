"""numpy and scipy, the reference of our statistics; imported when a test first uses them.

Every process of a test run imports all test files, but only one or two run these tests.
"""

from __future__ import annotations

import importlib
from typing import Any


class _Lazy:
    """A module that is imported when a test uses it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "pytestmark":  # pytest looks for these in test files
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)


np: Any = _Lazy("numpy")
optimize: Any = _Lazy("scipy.optimize")
stats: Any = _Lazy("scipy.stats")
