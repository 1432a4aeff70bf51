"""The commands of studies, which stand in their folders."""

from __future__ import annotations

from typing import Any

from offload.cli.program import command
from offload.cli.runner import TerminalRunner
from offload.studies import Command, commands


def register(name: str, each: Command[Any]) -> None:
    """Add a command, whose options are those of the study."""

    def run(given: Any) -> None:
        each.run(given, TerminalRunner())

    run.__name__, run.__doc__ = name, each.options.__doc__
    run.__annotations__ = {"given": each.options, "return": None}
    run.__defaults__ = (each.options(),)
    command(each.group)(run)


for each, found in commands().items():
    register(each, found)
