"""The commands of the laboratory, whose words and options are parsed as those of the product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fabric.config import Config
from fabric.executor import Executor
from fabric.main import Fab
from invoke import Collection

from offload import __version__
from offload.cli import as_task, syntax

NAME = "python -m lab"
COMMANDS: dict[str, Any] = {}


def command(function: Callable[..., None]) -> Any:
    """Register a function as a command; its parameters are the options, its docstring the help."""
    COMMANDS[function.__name__] = as_task(function)
    return COMMANDS[function.__name__]


from lab.commands import check_advice, check_method, executors, faults  # noqa: E402 - they register

__all__ = ["COMMANDS", "check_advice", "check_method", "command", "executors", "faults", "run"]


class _Lab(Fab):
    """Fabric's program with the commands of the laboratory."""

    def load_collection(self) -> None:
        """Load the commands instead of those of a fabfile."""
        syntax.accept(self, lambda: None)
        self.collection = Collection(auto_dash_names=False)
        for name, each in COMMANDS.items():
            self.collection.add_task(each, name)


def run(words: Sequence[str]) -> None:
    """Run the command named by the first word; `NAME --help` explains it."""
    name = words[0].partition(":")[0]
    if {"-h", "--help"} & {*words[1:]}:
        words = ["--help", name]
    program = _Lab(__version__, name=NAME, executor_class=Executor, config_class=Config)
    program.run([NAME, *words])
