"""Flag: a warning about a measurement. Problem: the reason why there is no measurement."""

from __future__ import annotations

from dataclasses import dataclass

# Kinds of a problem:
UNAVAILABLE = "unavailable"  # the case could not be started
CANNOT_LOAD = "cannot load"  # its Python lacks a package, or the import of its task failed
FAILED_REQUEST = "failed request"  # one of the first requests failed, or had no response in time
LOAD = "load"  # the load tool failed
TOO_SLOW = "too slow"  # its users would wait for longer than the timeout of a request


@dataclass(frozen=True)
class Flag:
    """A warning about a figure: its kind (one word), the observation, and what to do."""

    kind: str
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        """Return one line for a report."""
        return f"{self.kind}: {self.message}" + (f": {self.remedy}" if self.remedy else "")


@dataclass(frozen=True)
class Problem:
    """The reason why a case has no figures."""

    kind: str
    message: str
    remedy: str = ""

    @property
    def text(self) -> str:
        """The message and the remedy in one line."""
        return self.message + (f": {self.remedy}" if self.remedy else "")

    def __str__(self) -> str:
        """Return one line for a report."""
        return self.text if self.kind == LOAD else f"not available: {self.text}"
