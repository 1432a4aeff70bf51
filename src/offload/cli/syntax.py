"""Command-line syntax: rewrite `name:value,key=value` to options of Fabric 3.

The values may also follow after spaces: `name value key=value`.

Fabric first parses its own options, then imports the fabfile, and then parses the commands. Before
this last step, `accept` rewrites the commands. It uses only public attributes of the program.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from invoke import Exit, ParseError, Program

from offload.cli import output
from offload.errors import StorageError, UsageError, escaped, shortened
from offload.registry.catalog import unknown

Defaults = Mapping[str, object]
REPLACED = {  # options of the last release, and what to write instead
    ("compare_runs", "ensure"): "use min_rate=100 and max_p99=50ms, which limit each of its cases",
}
YES, NO = ("yes", "true", "on", "1"), ("no", "false", "off", "0")


def accept(program: Program, bare: Callable[[], None]) -> None:
    """Make `program` accept every spelling, and exit with 2 and one line for an invalid one.

    `bare` is called if there are no arguments. Output without a reader is discarded.
    """
    output.open_missing_streams()
    output.tolerate_early_readers()
    parse, cleanup = program.parse_tasks, program.parse_cleanup

    def parse_tasks() -> None:
        try:
            commands = {
                name: parameter_defaults(task.body)
                for name, task in program.collection.tasks.items()
            }
            core = program.initial_context.flags
            if program.core.unparsed:  # else `fab -H a -- command`, which is Fabric's own
                given = program.args["hosts"]
                words, hosts = take_hosts(program.core.unparsed, given.value or "")
                given.value = ""  # Fabric would repeat each command host by host
                rewritten = rewrite(words, commands, core)
                program.core.unparsed[:] = with_hosts(rewritten, hosts, commands)
            explained = program.args.help
            if isinstance(explained.value, str):
                explained.value = _command(explained.value.partition(":")[0], commands)
            parse()
        except (ParseError, UsageError) as error:
            text = shortened(escaped(str(error)))
            raise Exit(f"error: {text}", code=2) from error

    def parse_cleanup() -> None:
        try:
            try:
                cleanup()  # prints lists and help, then raises Exit
            finally:
                print(end="", flush=True)
        except StorageError as full:
            raise Exit(f"error: {full}", code=full.exit_code) from None

    def no_tasks_given() -> None:
        bare()
        raise Exit

    program.config.tasks.auto_dash_names = False
    setattr(program, "parse_tasks", parse_tasks)  # noqa: B010 - mypy forbids assigning to a method
    setattr(program, "parse_cleanup", parse_cleanup)  # noqa: B010
    setattr(program, "no_tasks_given", no_tasks_given)  # noqa: B010


def parameter_defaults(command: Callable[..., Any]) -> Defaults:
    """Return the parameters of a command after its context, with their defaults.

    The parameter `from_` is the option `from`, which is a keyword of Python.
    """
    parameters = list(inspect.signature(command).parameters.values())[1:]
    return {parameter.name.rstrip("_"): parameter.default for parameter in parameters}


def take_hosts(words: Iterable[str], hosts: str = "") -> tuple[list[str], str]:
    """Return the words without Fabric's option -H, and its value, or else `hosts`.

    >>> take_hosts(["run_load_test", "-H", "a,b"])
    (['run_load_test'], 'a,b')
    """
    left: list[str] = []
    is_value = False
    for word in words:
        if is_value:
            hosts, is_value = word, False
        elif word in ("-H", "--hosts"):
            is_value = True
        elif word.startswith("--hosts="):
            hosts = word.removeprefix("--hosts=")
        elif word.startswith("-H"):
            hosts = word.removeprefix("-H").removeprefix("=")
        else:
            left.append(word)
    if is_value:
        raise UsageError("-H has no value", "write -H a,b")
    return left, hosts


def with_hosts(words: list[str], hosts: str, commands: Mapping[str, Defaults]) -> list[str]:
    """Return rewritten words in which the commands have the option from= instead of -H.

    Raise UsageError for a command that has no such option.

    >>> with_hosts(["measure", "--users=2"], "a,b", {"measure": {"users": "", "from": ""}})
    ['measure', '--from=a+b', '--users=2']
    """
    if not hosts:
        return words
    found: list[str] = []
    for word in words:
        found.append(word)
        if word in commands:
            if "from" not in commands[word]:
                able = ", ".join(name for name, each in commands.items() if "from" in each)
                raise UsageError(f"{word} has no -H", f"it is for load from several hosts: {able}")
            found.append(f"--from={'+'.join(hosts.split(','))}")
        elif word.startswith("--from"):
            raise UsageError("-H and from= exclude each other", "use one of them")
    return found


def rewrite(
    words: Iterable[str], commands: Mapping[str, Defaults], core: Iterable[str] = ()
) -> list[str]:
    """Rewrite `run_server:3,port=9000` to `run_server --server=3 --port=9000`; raise UsageError.

    Commands may have dashes, and options underscores; option names are checked. Words after a
    command that are no commands are its values, too.

    >>> commands = {"run_server": {"server": "3", "port": "8000", "quick": False}}
    >>> rewrite(["run-server:2,port=9000,quick=yes"], commands)
    ['run_server', '--server=2', '--port=9000', '--quick']
    >>> rewrite(["run_server", "2", "port=9000"], commands)
    ['run_server', '--server=2', '--port=9000']
    """
    core = set(core)
    rewritten: list[str] = []
    values: list[str] = []  # of the command
    command = ""
    is_value = False
    for word in words:
        if is_value:
            rewritten.append(word)
            is_value = False
        elif word.startswith("-"):
            option, is_value = _checked(word, command, commands, core)
            rewritten += option
        elif command and _is_argument(word, command, commands):
            values += word.split(",")
        else:
            rewritten += _options(command, values, commands.get(command, {}))
            name, colon, rest = word.partition(":")
            command, values = _command(name, commands), rest.split(",") if colon else []
            rewritten.append(command)
    return rewritten + _options(command, values, commands.get(command, {}))


def _is_argument(word: str, command: str, commands: Mapping[str, Defaults]) -> bool:
    """Whether a word after `command` is its argument, and not another command or its misspelling.

    >>> commands = {"advise": {"task": ""}, "doctor": {}}
    >>> [_is_argument(word, "advise", commands) for word in ("shop:quote", "doctor", "docter")]
    [True, False, False]
    """
    name = word.partition(":")[0].replace("-", "_")
    is_named = word.partition("=")[0].isidentifier() and "=" in word
    return bool(commands[command]) and (is_named or not get_close_matches(name, commands))


def _command(name: str, commands: Mapping[str, Defaults]) -> str:
    command = name.replace("-", "_")
    if command not in commands:
        raise unknown("the commands", name, list(commands), "offload --list")
    return command


def _options(command: str, values: list[str], parameters: Defaults) -> list[str]:
    """Return one `--name=value` for each value; those before the first name are positional."""
    given: dict[str, str] = {}
    names = list(parameters)
    named = ""  # the previous value, if it has a name
    for position, value in enumerate(values):
        key, equals, rest = value.partition("=")
        if equals and key.isidentifier():
            name, text = _parameter(command, key, names), rest
            named = value
        elif value == "":
            continue
        elif named:
            raise _without_name(value, named)
        elif position >= len(names):
            known = ", ".join(names) or "nothing"
            raise UsageError(f"{command} has no parameter for {value!r}: it accepts {known}")
        else:
            name, text = names[position], value
        if name in given:
            raise UsageError(f"{command} has {name} twice: {given[name]!r} and {text!r}")
        given[name] = text
    return [option for name, value in given.items() for option in _option(name, value, parameters)]


def _without_name(value: str, named: str) -> UsageError:
    """Return the error for a positional value after `named`, which is `key=value`."""
    key, _, first = named.partition("=")
    several = f"join several values by a plus sign, {key}={first}+{value}"
    comma = f"give a value with a comma as the option --{key}='{first},{value}'"
    return UsageError(f"{value!r} after {key}= has no name", f"{several}, or {comma}")


def _option(name: str, value: str, parameters: Defaults) -> list[str]:
    flag = "--" + name.replace("_", "-")
    if not isinstance(parameters[name], bool):
        return [f"{flag}={value}"]
    if value.lower() in YES:
        return [flag]
    if value.lower() in NO:
        return []
    raise UsageError(f"{name}={value!r} must be yes or no")


def _checked(
    word: str, command: str, commands: Mapping[str, Defaults], core: set[str]
) -> tuple[list[str], bool]:
    """Return an option in Fabric's form, and whether the next word is its value."""
    flag, equals, value = word.partition("=")
    if flag in core or not command or not flag.startswith("--"):
        return [word], False
    parameters = commands[command]
    name = _parameter(command, flag[2:].replace("-", "_"), list(parameters))
    if equals:
        return _option(name, value, parameters), False
    return ["--" + name.replace("_", "-")], not isinstance(parameters[name], bool)


def _parameter(command: str, name: str, names: list[str]) -> str:
    if name not in names and (fix := REPLACED.get((command, name))):
        raise UsageError(f"{command} has no {name}= any more", fix)
    if name not in names:
        raise unknown(f"the parameters of {command}", name, names, f"offload --help {command}")
    return name
