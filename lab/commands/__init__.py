"""The commands of the laboratory, whose words and options are parsed as those of the product."""

from __future__ import annotations

from offload.cli.program import Program

NAME = "python -m lab"
PROGRAM = Program(NAME)
command = PROGRAM.command("Laboratory")

from lab.commands import check_advice, check_method, executors, faults  # noqa: E402 - they register

__all__ = ["NAME", "PROGRAM", "check_advice", "check_method", "command", "executors", "faults"]
