"""The statistics of scipy, by which ours are checked; imported by the first test that asks."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name == "pytestmark":  # pytest looks for these in every test file
        raise AttributeError(name)
    from scipy import stats

    return getattr(stats, name)
