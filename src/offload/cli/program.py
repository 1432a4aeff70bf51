"""The command-line program: `fab` in a checkout, `offload` in any folder."""

from __future__ import annotations

import sys

from fabric.config import Config
from fabric.executor import Executor
from fabric.main import Fab
from invoke import Collection, Exit, Program

from offload import __version__
from offload.cli import COMMANDS, GROUPS, completion, output, syntax
from offload.cli.commands import (
    advise,
    benchmark,
    capacity,
    cases,
    gate,
    live,
    load_test,
    maintain,
    serve,
    start,
    understand,
)
from offload.errors import StorageError

__all__ = [
    "COMMANDS",
    "accept",
    "advise",
    "benchmark",
    "capacity",
    "cases",
    "gate",
    "live",
    "load_test",
    "main",
    "maintain",
    "serve",
    "start",
    "understand",
]


NAME = "offload"
FIRST = {
    "doctor": "can this machine measure now?",
    "advise path/to/shop.py:quote": "which strategy does this function need? In 2 minutes",
    "quick": "what does the GIL cost five kinds of work? In 5 minutes",
}


class Offload(Fab):
    """Fabric's program with our commands instead of those of a fabfile."""

    def load_collection(self) -> None:
        """Load our commands instead of those of a fabfile."""
        accept(self)
        self.collection = Collection(auto_dash_names=False)
        for name, command in COMMANDS.items():
            self.collection.add_task(command, name)

    def print_version(self) -> None:
        """Print our version."""
        print(f"{NAME} {__version__}", flush=True)


def main() -> None:
    """Run the command `offload`."""
    output.open_missing_streams()
    output.tolerate_early_readers()
    try:
        Offload(__version__, name=NAME, executor_class=Executor, config_class=Config).run()
    except StorageError as error:  # of the version, which is printed before any command
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def accept(program: Program) -> None:
    """Make `program` accept every spelling of commands, and list the commands without arguments."""

    def print_commands() -> None:
        print("Start with one of these:")
        for words, what in FIRST.items():
            print(f"  {program.binary} {words:{max(map(len, FIRST))}}  {what}")
        print()
        width = max(map(len, COMMANDS))
        for group, names in GROUPS.items():
            print(group)
            for name in names:
                print(f"  {name:{width}}  {(COMMANDS[name].__doc__ or '').partition(chr(10))[0]}")
            print()
        command = program.binary
        print(
            f"{command} --help COMMAND explains a command; write arguments like "
            "run_server:3,task,port=9000"
        )

    syntax.accept(program, print_commands)
    cleanup = program.parse_cleanup

    def parse_cleanup() -> None:
        if program.args.complete.value:
            commands = {
                name: syntax.parameter_defaults(task.body)
                for name, task in program.collection.tasks.items()
            }
            flags = program.initial_context.flags
            found = completion.candidates(program.core.remainder, commands, flags)
            for word in found:
                print(word)
            raise Exit
        cleanup()

    setattr(program, "parse_cleanup", parse_cleanup)  # noqa: B010 - mypy forbids assigning
