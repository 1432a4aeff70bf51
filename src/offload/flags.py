"""A flag and a problem: what to doubt in a measurement, and why there is none."""

from __future__ import annotations

from dataclasses import dataclass

# Kinds of a problem:
UNAVAILABLE = "unavailable"  # the case could not be started
CANNOT_LOAD = "cannot load"  # its Python lacks a package, or importing the task raised
LOAD = "load"  # the load tool failed


@dataclass(frozen=True)
class Flag:
    """A reason to doubt a figure: its kind (a word), what was seen, and what to do about it."""

    kind: str
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        """Return it as a line of a report."""
        return f"{self.kind}: {self.message}" + (f": {self.remedy}" if self.remedy else "")


@dataclass(frozen=True)
class Problem:
    """Why there are no figures."""

    kind: str
    message: str
    remedy: str = ""

    @property
    def text(self) -> str:
        """What went wrong, and what to do about it."""
        return self.message + (f": {self.remedy}" if self.remedy else "")

    def __str__(self) -> str:
        """Return it as a line of a report."""
        return self.text if self.kind == LOAD else f"not available: {self.text}"
