"""Studies: each answers one question. All of a question stands in one file or folder here.

::

    words -> options -> plan -> (engine) -> records -> result -> document -> text | HTML
                                                             `-> values  -> JSON

The folder is the registry: a module here with a STUDY is a command, and its runs are resumed and
reported, without another place to edit.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from offload.errors import DisturbedError

if TYPE_CHECKING:
    from offload.documents import Document
    from offload.engine.plan import Plan
    from offload.engine.record import Record
    from offload.flags import Flag

O = TypeVar("O")  # noqa: E741 - options
R = TypeVar("R")  # result


@dataclass(frozen=True)
class Run:
    """A run that was measured, perhaps not to its end."""

    folder: Path
    plan: Plan
    records: Sequence[Record]


class Study(ABC, Generic[O, R]):
    """A question. Imports that take time are inside of its methods.

    `options` is a dataclass of options from the table; its docstring is the help of the command,
    which is listed in `group`. It has a field `output`.
    """

    group: ClassVar[str] = "Measure"
    options: type[O]

    @abstractmethod
    def plan(self, options: O) -> Plan:
        """Return what to measure; raise UsageError."""

    def notices(self, plan: Plan) -> Iterable[str]:
        """Return what the user should know before the run."""
        return ()

    def complete(self, run: Run, report: Callable[[str], object]) -> None:
        """Measure what belongs to no round, and save it in the folder of the run."""

    @abstractmethod
    def result(self, run: Run) -> R:
        """Return what the records show; raise RunError if they do not suffice."""

    @abstractmethod
    def document(self, result: R) -> Document:
        """Return the answer in words, tables and charts."""

    @abstractmethod
    def values(self, result: R) -> Any:
        """Return the answer for JSON."""

    def check(self, result: R) -> None:
        """Raise the error whose exit code the command has."""


@functools.cache
def studies() -> Mapping[str, Study[Any, Any]]:
    """Return all studies by the names of their commands."""
    found = {}
    for each in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{each.name}")
        if hasattr(module, "STUDY"):
            found[each.name] = module.STUDY
    return found


def check_disturbance(disturbed: Flag | None) -> None:
    """Raise DisturbedError if other processes disturbed a measurement."""
    if disturbed is not None:
        raise DisturbedError("no verdict", disturbed.remedy)
