"""Studies: each answers one question. All of a question stands in one file or folder here.

::

    words -> options -> plan -> (engine) -> records -> result -> document -> text | HTML
                                                             `-> values  -> JSON

The folder is the registry: a module here with a STUDY is a command of its name, and its runs are
resumed and reported, without another place to edit. A module with COMMANDS has these commands
instead, by their names. A study whose runs end by a rule of its own has it in rule.py, as RULE.
"""

from __future__ import annotations

import functools
import importlib
import json
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from offload.errors import DisturbedError, printable

if TYPE_CHECKING:
    from offload.documents import Document
    from offload.engine.plan import Plan
    from offload.engine.record import Record
    from offload.errors import Flag

O = TypeVar("O")  # noqa: E741 - options
R = TypeVar("R")  # result


@dataclass(frozen=True)
class Run:
    """A run that was measured, perhaps not to its end."""

    folder: Path
    plan: Plan
    records: Sequence[Record]


class Rows(Protocol):
    """Where the rows of a command go, besides its output."""

    def send(self, row: Sequence[str]) -> None:
        """Show a row."""

    def close(self, lines: Sequence[str] = ()) -> None:
        """Show lines below the rows, which are complete."""


class Runner(Protocol):
    """What the program does for a command."""

    def measure(self, plan: Plan, is_opened: bool) -> Run:
        """Measure a plan in a new folder, with its live page in a browser if `is_opened`."""

    def answer(self, study: Study[Any, Any], run: Run, form: str) -> None:
        """Write the report of a run and print its answer; raise the error of its exit code."""

    def show(self, study: Study[Any, R], folder: Path, result: R, form: str) -> None:
        """Print the result of a run in a folder; raise the error of its exit code."""

    def check(self, plan: Plan) -> None:
        """Raise UserError if a server or a load tool of a plan cannot be started."""

    def report(self, line: str) -> None:
        """Print a line about a step to stderr."""

    def page(self, is_opened: bool) -> Callable[[Path], object]:
        """Return what opens the live page of a run if `is_opened`; raise UsageError."""

    def rows(self, title: str, head: Sequence[str], is_opened: bool) -> Rows:
        """Return a live page of rows; one that shows nothing unless `is_opened`."""

    @property
    def has_reader(self) -> bool:
        """Whether stdout still has a reader."""

    def write_report(self, folder: Path) -> None:
        """Write the report of a run in HTML."""


class Command(ABC, Generic[O]):
    """A command of a study.

    `options` is a dataclass of options from the table; its docstring is the help of the command,
    which is listed in `group`. Imports that take time are inside of the methods.
    """

    group: ClassVar[str] = "Measure"
    formats: ClassVar[Sequence[str]] = ("text", "json")
    options: type[O]

    @abstractmethod
    def run(self, options: O, runner: Runner) -> None:
        """Do what the options say; raise UserError."""


class Study(Command[O], Generic[O, R]):
    """A question, whose runs are resumed and reported.

    With `has_failing_cases` a case that cannot start is a part of the answer, not an error; with
    `has_missing_pythons` a case whose Python is missing, too.
    """

    has_failing_cases: ClassVar[bool] = False
    has_missing_pythons: ClassVar[bool] = False

    def check_plan(self, plan: Plan) -> None:
        """Raise UserError if a run that was interrupted cannot be continued."""

    def reserve(self) -> AbstractContextManager[None]:
        """Reserve what no other process may use while a run is measured and answered."""
        return nullcontext()

    def complete(self, run: Run, report: Callable[[str], object]) -> None:
        """Measure what belongs to no round, and save it in the folder of the run."""

    @abstractmethod
    def result(self, run: Run) -> R:
        """Return what the records show; raise RunError if they do not suffice."""

    @abstractmethod
    def document(self, result: R) -> Document | None:
        """Return the answer in words, tables and charts; None if it is the tables of the run."""

    @abstractmethod
    def values(self, result: R) -> Any:
        """Return the answer for JSON."""

    def render(self, folder: Path, result: R, form: str) -> str:
        """Return the answer in one of `formats`."""
        from offload.documents import text

        if form == "json":
            return json.dumps(self.values(result), indent=2)
        document = self.document(result)
        assert document is not None  # otherwise the study renders its answer itself
        return printable(f"{text.render(document)}\nRecords: {folder}")

    def export(self, result: R) -> None:
        """Write the answer to files for other programs."""

    def check(self, result: R) -> None:
        """Raise the error whose exit code the command has."""


class PlannedStudy(Study[O, R]):
    """A question whose options say all that is measured. They have a field `output`."""

    def run(self, options: O, runner: Runner) -> None:
        """Measure a plan and answer."""
        plan, output = self.plan(options), _output(options)
        for line in self.notices(plan):
            runner.report(line)
        runner.answer(self, runner.measure(plan, output.open), output.format)

    @abstractmethod
    def plan(self, options: O) -> Plan:
        """Return what to measure; raise UsageError."""

    def notices(self, plan: Plan) -> Iterable[str]:
        """Return what the user should know before the run."""
        return ()


def _output(options: Any) -> Any:
    return options.output


@functools.cache
def _modules() -> Mapping[str, Any]:
    names = [each.name for each in pkgutil.iter_modules(__path__)]
    return {name: importlib.import_module(f"{__name__}.{name}") for name in names}


def studies() -> Mapping[str, Study[Any, Any]]:
    """Return all studies by the names of their runs."""
    return {name: each.STUDY for name, each in _modules().items() if hasattr(each, "STUDY")}


def find_study(run: str) -> Study[Any, Any]:
    """Return the study of a run by the run's name, which is that of a study or of a suite."""
    found = studies()
    return found.get(run) or found["suite"]


def commands() -> Mapping[str, Command[Any]]:
    """Return the commands of all studies by their names."""
    found: dict[str, Command[Any]] = {}
    for name, module in _modules().items():
        own = {name: module.STUDY} if hasattr(module, "STUDY") else {}
        found |= getattr(module, "COMMANDS", own)
    return found


def formats() -> Sequence[str]:
    """Return all formats in which any study answers."""
    return [*dict.fromkeys(name for each in studies().values() for name in each.formats)]


def check_disturbance(disturbed: Flag | None) -> None:
    """Raise DisturbedError if other processes disturbed a measurement."""
    if disturbed is not None:
        raise DisturbedError("no verdict", disturbed.remedy)
