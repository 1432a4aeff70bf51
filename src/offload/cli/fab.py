"""Fabric's words: rewrite `fab run_server:3,network_sync` to a command of `offload`, and run it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING

from offload import command_line
from offload.cli import commands  # noqa: F401 - they register themselves
from offload.cli.program import OFFLOAD, find_parameter, option
from offload.errors import UsageError

if TYPE_CHECKING:
    from fabric.main import Fab

SSH = ("ssh-config", "identity", "connect-timeout")  # options of Fabric before all commands


def take_over(program: Fab) -> None:
    """Run the words of `fab` when it has loaded the fabfile, in which it would look for tasks."""
    program.parse_tasks = partial(_run, program)


def _run(program: Fab) -> None:
    """Run the words of `fab`, and exit; leave it what is not for us: fab -H a -- ls."""
    args, words = program.args, list(program.core.unparsed)
    if args["complete"].value:
        sys.exit(OFFLOAD.run(["--complete", "--", program.core.remainder]))
    if isinstance(explained := args["help"].value, str):
        sys.exit(OFFLOAD.run(["--help", explained.partition(":")[0]]))
    if words or not program.core.remainder:
        given = {name: args[name].value for name in SSH}
        more = [f"--{name}={value}" for name, value in given.items() if value]
        sys.exit(run_all(words, args["hosts"].value or "", more) if words else OFFLOAD.run([]))
    type(program).parse_tasks(program)


def run_all(words: Sequence[str], hosts: str = "", more: Sequence[str] = ()) -> int:
    """Run the commands of a line until one fails; return its exit code."""
    if words[0].partition(":")[0] == "help":
        return OFFLOAD.run([*words[0].split(":"), *words[1:]])
    with OFFLOAD.errors() as ended:
        for command in [*commands_of(words, hosts)]:
            if ended.code == 0:
                ended.code = OFFLOAD.run([*command, *more])
    return ended.code


def commands_of(words: Sequence[str], hosts: str = "") -> Iterator[list[str]]:
    """Yield each command of a line as words of `offload`; raise UsageError."""
    lines: list[tuple[str, list[str], list[str]]] = []  # each command, its options, its values
    words, is_value = [*words], False
    while words:
        word = words.pop(0)
        if is_value:
            lines[-1][1].append(word)
            is_value = False
        elif word.startswith(("-H", "--hosts")):  # of Fabric, but after a command
            inline = word.removeprefix("--hosts").removeprefix("-H").removeprefix("=")
            if not inline and not words:
                raise UsageError("-H has no value", "write -H a,b")
            hosts = inline or words.pop(0)
        elif lines and word.startswith("-"):
            lines[-1][1].append(word)
            is_value = OFFLOAD.parameters(lines[-1][0]).get(word[2:].replace("-", "_")) is str
        elif lines and _is_argument(word, lines[-1][0]):
            lines[-1][2].extend(word.split(","))
        else:
            name, colon, rest = word.partition(":")
            lines.append((OFFLOAD.find(name), [], rest.split(",") if colon else []))
    for name, options, values in lines:
        found = [name, *options, *_options(name, values)]
        if hosts and "from" not in OFFLOAD.parameters(name):
            raise UsageError(f"{name} has no -H", "use it with commands that have the option from=")
        if hosts and any(option.startswith("--from") for option in found):
            raise UsageError("-H and from= exclude each other", "use one of them")
        yield [*found, f"--from={'+'.join(hosts.split(','))}"] if hosts else found


def _is_argument(word: str, command: str) -> bool:
    """Whether a word is an argument of the command before, not another command or its misspelling.

    >>> [_is_argument(word, "advise") for word in ("shop:quote", "doctor", "docter")]
    [True, False, False]
    """
    name, key = word.partition(":")[0].replace("-", "_"), word.partition("=")[0]
    is_value = (key.isidentifier() and "=" in word) or not get_close_matches(name, OFFLOAD.commands)
    return is_value and bool(OFFLOAD.parameters(command))


def _options(command: str, values: Sequence[str]) -> Iterator[str]:
    """Yield one `--name=value` for each value; those before the first name are positional."""
    parameters, named = OFFLOAD.parameters(command), ""  # the previous value, if it has a name
    for position, value in enumerate(values):
        key, equals, rest = value.partition("=")
        if equals and key.isidentifier():
            named = value
            yield from option(find_parameter(command, key, parameters, "offload"), rest, parameters)
        elif value and named:
            key, _, first = named.partition("=")
            second = value
            if key in command_line.SECRET:
                first = second = command_line.MASK
            several = f"join several values by a plus sign, {key}={first}+{second}"
            comma = f"give a value with a comma as the option --{key}='{first},{second}'"
            raise UsageError(f"{second!r} after {key}= has no name", f"{several}, or {comma}")
        elif value and position >= len(parameters):
            raise OFFLOAD.no_place(command, value)
        elif value:
            yield from option([*parameters][position], value, parameters)
