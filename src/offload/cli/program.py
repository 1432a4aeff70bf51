"""A command-line program: its commands, their help, one format of errors, and exit codes.

A command is a function with `@PROGRAM.command(GROUP)`: its parameters are its options, with types
from the table in `options`, and its docstring is its help. Parameters before `*` may be given by
position, too. `key=value` is the same as `--key=value`.

    words -> normalize -> cyclopts (parse, convert by the table) -> command -> exit code
"""

from __future__ import annotations

import inspect
import io
import os
import re
import signal
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import cyclopts
from cyclopts import exceptions

from offload import __version__, command_line, resource_limits
from offload.cli import completion
from offload.cli.completion import Parameters
from offload.errors import MachineError, StorageError, UsageError, UserError, escape_hidden
from offload.registry.catalog import unknown

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


WIDTH = 100  # columns
YES, NO = ("yes", "true", "on", "1"), ("no", "false", "off", "0")
GONE = {  # commands of the last release, and what to use instead
    "predict": "use offload advise, with budget=30 for less time",
}
HELP = ("-h", "--help", "help")
REPLACED = {  # options of the last release, and what to write instead
    ("advise", "pythons"): "repeat the command with python= for each interpreter",
    ("compare_runs", "ensure"): "use min_rate=100 and max_p99=50ms, which limit each of its cases",
    ("run_load_test", "processes"): "use load_processes=, the processes of the load tool",
    ("run_server", "threads"): "use runtime_threads= for granian, workers= for other servers",
    ("run_server", "isolate"): "use dask_isolate=",
}

OTHER_NAMES = {  # of options in other programs
    "seconds": "time",
    "duration": "time",
    "clients": "users",
    "concurrency": "users",
    "threads": "workers",
}


SIZES = ("processes", "workers", "threads")  # a case has them in its name
IN_CASE = "write it in the case: SERVERx16 has 16 workers, SERVERx2x16 2 processes of 16 workers"


class Exit(Exception):
    """End a command with a message on stderr and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class Ended:
    """The exit code of a command that has ended."""

    code: int = 0


class Program:
    """A program `name`; `first` are commands to start with, each with the question it answers.

    `order` names the groups in the order of the list, and in each group the commands to list first.
    `topics` are further pages of the help, by their names.
    """

    def __init__(
        self,
        name: str,
        order: Mapping[str, Sequence[str]] | None = None,
        topics: Mapping[str, str] | None = None,
        **first: str,
    ) -> None:
        self.name, self.first, self._order = name, first, order or {}
        self.topics = topics or {}
        self._groups: dict[str, list[str]] = {group: [] for group in self._order}
        self._app = cyclopts.App(
            name=name,
            help_flags=(),
            version_flags=(),
            default_parameter=cyclopts.Parameter(negative=()),
        )

    def command(self, group: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Return a decorator that registers a function as a command of a group."""

        def decorate(function: Callable[..., None]) -> Callable[..., None]:
            self._groups.setdefault(group, []).append(function.__name__)
            self._app.command(function, name=function.__name__)
            return function

        return decorate

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        """The commands of each group, in the order of the list."""
        return {
            group: sorted(names, key=[*self._order.get(group, ()), *names].index)
            for group, names in self._groups.items()
        }

    @property
    def commands(self) -> list[str]:
        """The names of all commands."""
        return [name for names in self.groups.values() for name in names]

    def run(self, words: Sequence[str]) -> int:
        """Run a command; return its exit code. An error is one line on stderr."""
        with self.errors() as ended:
            self._run(words)
            sys.stdout.flush()
        return ended.code

    @contextmanager
    def errors(self) -> Iterator[Ended]:
        """Print an error as one line; yield an object that then has its exit code."""
        open_missing_streams()
        tolerate_early_readers()
        ended, line = Ended(), ""
        try:
            yield ended
        except UserError as error:
            line, ended.code = f"error: {error}", error.exit_code
        except Exit as exit_:
            line, ended.code = str(exit_), exit_.code
        except (MemoryError, OSError, RuntimeError) as error:
            what = f"the command failed ({type(error).__name__}: {error})"
            limit = resource_limits.machine_error(what, error)
            if limit is None:
                raise
            line, ended.code = f"error: {limit}", limit.exit_code
        except KeyboardInterrupt as interrupt:
            line, ended.code = ": ".join(["interrupted", *map(str, interrupt.args)]), 130
        if line:
            print(line, file=sys.stderr, flush=True)

    def _run(self, words: Sequence[str]) -> None:
        first, rest = (words[0], list(words[1:])) if words else ("--list", [])
        if first == "--complete":
            for word in completion.candidates(" ".join(rest[1:]), self.all_parameters()):
                print(word)
        elif first == "--version":
            print(f"{self.name} {__version__}")
        elif first in (*HELP, "--list") and not rest:
            print(self.overview())
        elif first in HELP:
            print(self.topics.get(rest[0]) or self.help(self.find(rest[0])))
        elif first.startswith("-"):
            raise unknown("the options", first, ["--help", "--list", "--version"])
        elif {"-h", "--help"} & {*rest}:
            print(self.help(self.find(first)))
        else:
            self._call(self.find(first), rest)

    def find(self, word: str) -> str:
        """Return the name of a command, which may be written with dashes; raise UsageError."""
        name = word.replace("-", "_")
        if name in GONE:
            raise UsageError(f"{name} is gone", GONE[name])
        if name not in self.commands:
            raise unknown("the commands", word, self.commands, f"{self.name} --list")
        return name

    def _call(self, name: str, words: Sequence[str]) -> None:
        function, bound = self.parse(name, words)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Raise KeyboardInterrupt, so that every `finally` runs; `interrupts` changed SIGINT.
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
                signal.signal(number, signal.default_int_handler)
        try:
            Path.cwd()
        except FileNotFoundError:
            raise MachineError("the current folder was removed", "change to another one") from None
        with command_line.used([name, *words]):
            function(*bound.args, **bound.kwargs)

    def parse(
        self, name: str, words: Sequence[str]
    ) -> tuple[Callable[..., object], inspect.BoundArguments]:
        """Return the function of a command, and its arguments; raise UsageError."""
        normal = normalize(name, words, self.parameters(name), self.name)
        try:
            function, bound, _ = self._app.parse_args(
                [name, *normal], exit_on_error=False, print_error=False
            )
        except exceptions.CycloptsError as error:
            raise self._usage_error(name, error, normal) from None
        return function, bound

    def _usage_error(
        self, name: str, error: exceptions.CycloptsError, words: Sequence[str]
    ) -> UsageError:
        """Return the error of the command line in this program's words."""
        match error:
            case exceptions.UnusedCliTokensError():
                value = (error.unused_tokens or [""])[0]
                return self.no_place(name, command_line.shown(value, words))
            case exceptions.ArgumentOrderError(token=value):
                known = "a value without a name after one that is named in its place"
                value = command_line.shown(value, words)
                return UsageError(f"{name} has {value!r}, {known}", "name it, too")
            case exceptions.RepeatArgumentError(token=token):
                return UsageError(f"{name} has {(token.keyword or '').lstrip('-')} twice")
        what = " ".join(str(error).split()).rstrip(".")
        return UsageError(what, f"{self.name} {name} --help explains the options")

    def no_place(self, name: str, value: str) -> UsageError:
        """Return the error for a value too many."""
        known = ", ".join(self.parameters(name)) or "nothing"
        return UsageError(f"{name} has no parameter for {value!r}: it accepts {known}")

    def parameters(self, name: str) -> Parameters:
        """Return the options of a command, bool or str, first those that have a position."""
        return {
            argument.name[2:].replace("-", "_"): bool if argument.hint is bool else str
            for argument in self._arguments(name)
        }

    def all_parameters(self) -> dict[str, Parameters]:
        """Return the options of all commands."""
        return {name: self.parameters(name) for name in self.commands}

    def _arguments(self, name: str) -> list[Any]:
        found = self._app[name].assemble_argument_collection()
        return [argument for argument in found if argument.name != "*"]

    def docstring(self, name: str) -> str:
        """Return the docstring of a command."""
        return inspect.getdoc(self._app[name].default_command) or ""

    def help(self, name: str) -> str:
        """Return the help of a command: its usage, its docstring, and its options by group."""
        arguments = self._arguments(name)
        places = [f"[{each.name[2:].upper()}]" for each in arguments if each.index is not None]
        usage = " ".join([f"Usage: {self.name} {name}", *places, "[OPTIONS]" if arguments else ""])
        return "\n\n".join([usage.rstrip(), self.docstring(name), *self.options_by_group(name)])

    def options_by_group(self, name: str) -> Iterator[str]:
        """Yield the options of each group, with a title."""
        arguments = self._arguments(name)
        width = max((len(each.name) for each in arguments), default=0)
        groups: dict[str, list[str]] = {}
        for each in arguments:
            named = each.parameter.group[0].name if each.parameter.group else "Options"
            title = "Arguments" if each.index is not None else named
            head = each.name[2:] if each.index is not None else each.name
            text = textwrap.fill(
                each.parameter.help or "",
                WIDTH,
                initial_indent=f"  {head:{width}}  ",
                subsequent_indent=" " * (width + 4),
                break_on_hyphens=False,
            )
            groups.setdefault(title, []).append(text)
        for title, lines in groups.items():
            yield "\n".join([f"{title}:", *lines])

    def overview(self) -> str:
        """Return the list of all commands."""
        parts = []
        if self.first:
            width = max(map(len, self.first))
            lines = [f"  {self.name} {words:{width}}  {what}" for words, what in self.first.items()]
            parts.append("\n".join(["Start with one of these:", *lines]))
        width = max(map(len, self.commands))
        for group, names in self.groups.items():
            firsts = {name: self.docstring(name).partition("\n")[0] for name in names}
            lines = [f"  {name:{width}}  {first}" for name, first in firsts.items()]
            parts.append("\n".join([group, *lines]))
        more = "explains a command; write options as --port=9000 or port=9000"
        return "\n\n".join([*parts, f"{self.name} COMMAND --help {more}"])


def normalize(
    command: str, words: Sequence[str], parameters: Parameters, program: str
) -> list[str]:
    """Rewrite `key=value` and `--a_b` to options `--key=value` and `--a-b`; raise UsageError.

    >>> normalize("run", ["3", "keep_alive=yes", "--port", "80"], {"keep_alive": bool}, "offload")
    Traceback (most recent call last):
        ...
    offload.errors.UsageError: no 'port' in the parameters of run: choose from keep_alive
    """
    found: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if key.startswith("--") and len(key) > 2:
            name = find_parameter(command, key[2:].replace("-", "_"), parameters, program)
            found += option(name, value, parameters) if equals else [f"--{name.replace('_', '-')}"]
        elif equals and key.isidentifier():
            name = find_parameter(command, key, parameters, program)
            found += option(name, value, parameters)
        elif re.match(r"-[^\W\d]", word):
            raise unknown(f"the parameters of {command}", word, [*parameters])
        else:
            found.append(word)
    return found


def find_parameter(command: str, name: str, names: Collection[str], program: str) -> str:
    """Return the name of an option; raise UsageError if the command does not have it."""
    if name in names or name == "help":
        return name
    if fix := REPLACED.get((command, name)):
        raise UsageError(f"{command} has no {name}= any more", fix)
    if (own := OTHER_NAMES.get(name)) in names:
        raise UsageError(f"{command} has no {name}=", f"use {own}=")
    if name in SIZES and not {"case", "one"}.isdisjoint(names):
        raise UsageError(f"{command} has no {name}=", IN_CASE)
    shown = name.partition(":")[0]  # what follows it may be a secret: --Authorization: secret
    raise unknown(f"the parameters of {command}", shown, [*names], f"{program} {command} --help")


def option(name: str, value: str, parameters: Parameters) -> list[str]:
    """Return the option for `name=value`; none for an empty value or `no`. Raise UsageError."""
    flag = "--" + name.replace("_", "-")
    if parameters[name] is not bool:
        return [f"{flag}={value}"] if value else []
    if value.lower() in YES:
        return [flag]
    if value.lower() in NO:
        return []
    raise UsageError(f"{name}={value!r} must be yes or no")


CASE_PAGE = """\
A case is SERVER/TASK, with the sizes of the server:

  3/sleep_sync              server 3, which is threads, with a task of offload list
  threads/shop.py:quote     a function of a file; of a module it is shop.pricing:quote
  3x32/sleep_sync           32 workers: threads, or the processes of a pool
  3x2x32/sleep_sync         2 processes of 32 threads each
  preforkx4/sleep_sync      4 processes, each with one event loop
  3x32@3.14t/sleep_sync     another Python: offload pythons lists them

With app= it is the server alone: offload measure gunicorn_gthreadx2x32 app=shop.web:app"""
OFFLOAD = Program(
    "offload",
    {
        "Start here": ("doctor", "quick", "list"),
        "Measure": ("measure", "compare", "scale", "capacity", "resume", "run_suite"),
        "Understand": ("advise", "gil", "report", "live", "watch"),
        "Serve": ("run_server", "run_load_test"),
        "Maintain": ("baseline", "compare_runs"),
    },
    {"case": CASE_PAGE},
    **{
        "doctor": "can this machine measure now?",
        "advise path/to/shop.py:quote": "what to deploy for this function? In 90 s",
        "quick": "what does the GIL cost five kinds of work? In 5 minutes",
    },
)
command = OFFLOAD.command


# Standard output and error, whose reader may end early, such as `head`: the rest is discarded


def print_progress(line: str) -> None:
    """Print a line about a step of a command to stderr, wrapped."""
    for each in line.splitlines():
        wrapped = textwrap.fill(
            each, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
        print(wrapped, file=sys.stderr, flush=True)


def unwritten(error: OSError) -> StorageError:
    """Return the error for an output that cannot be written, such as to a full disk."""
    return StorageError(f"the output: {error.strerror}", "write it elsewhere")


def tolerate_early_readers() -> None:
    """Replace the real stdout and stderr by streams that discard output without a reader."""
    if sys.stdout is sys.__stdout__:
        sys.stdout = _tolerant(sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _tolerant(sys.stderr)


def open_missing_streams() -> None:
    """Open /dev/null for each closed standard stream, so that no other file has its number.

    Otherwise a pipe to a server could have such a number, which the server's own streams replace.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - as Python's own
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def has_no_reader(stream: TextIO) -> bool:
    """Whether a write to a stream has failed because its reader has ended."""
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return isinstance(raw, _Discarding) and raw.has_no_reader


def _tolerant(stream: TextIO | None) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper) or has_no_reader(stream):  # it may be closed
        return stream  # type: ignore[return-value]
    stream.flush()
    raw = _Discarding(stream.fileno(), "wb", closefd=False)
    return _Visible(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors="backslashreplace",  # for letters of file names that the locale does not have
        line_buffering=stream.line_buffering or stream.write_through,  # write_through: python -u
    )


class _Discarding(io.FileIO):
    """A file descriptor that discards everything after its first failed write.

    A write fails if the reader has closed the pipe, or if the disk is full. For stdout a full disk
    raises StorageError.
    """

    has_no_reader = False

    def write(self, data: ReadableBuffer, /) -> int | None:  # type: ignore[override]
        """Write bytes; return how many were written or discarded."""
        try:
            return super().write(data)
        except OSError as error:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
            self.has_no_reader = isinstance(error, BrokenPipeError)
            if not self.has_no_reader and self.fileno() == 1:
                raise unwritten(error) from None
            return memoryview(data).nbytes


class _Visible(io.TextIOWrapper):
    """A stream in which no name hides characters."""

    def write(self, text: str, /) -> int:
        """Write a text; return the number of its characters."""
        super().write(escape_hidden(text))
        return len(text)
