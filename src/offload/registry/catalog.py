"""Find servers, tasks, drivers and suites by name. Their files are read, not imported.

A task's name is that of a function of this project, a user's `package.module:function` or
`path/to/file.py:function`, with arguments `shop:quote(@basket.json)`, or a user's application
`app=shop.web:app`.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from offload.errors import UsageError
from offload.registry import entries, places
from offload.registry.entries import Entry

FOLDER = places.PACKAGE  # contains servers/, tasks/, loads/ and suites/
STUDIES = tuple(
    sorted(
        path.stem
        for path in (FOLDER / "studies").iterdir()
        if path.stem[0] != "_" and path.suffix != ".json"
    )
)
RUN_NAMES = (*STUDIES, "load_tests")  # of runs that are not of suites
MAX_LISTED = 12  # names in an error message


def servers() -> dict[str, Entry]:
    """Return all servers by name: the numbered ones first, in the order of their numbers.

    Raise UsageError if two servers share a name, a number or an ALSO spelling.
    """
    found = entries.read_modules(FOLDER / "servers", "serve").values()
    owners: dict[str, Entry] = {}
    for entry in found:
        for word in _spellings(entry):
            other = owners.setdefault(word, entry)
            if other is not entry:
                fix = "change NUMBER or ALSO in one of them, or remove it: the name is enough"
                raise _conflict(other, entry, f"use {word!r}", fix)
    return {e.name: e for e in sorted(found, key=lambda e: (e.number is None, e.number, e.name))}


def drivers() -> dict[str, Entry]:
    """Return all load drivers by name."""
    return entries.read_modules(FOLDER / "loads", "command")


def suites() -> dict[str, Entry]:
    """Return all suites by name; raise UsageError if a suite has a name in RUN_NAMES."""
    found = entries.read_modules(FOLDER / "suites", None)
    for entry in found.values():
        if entry.name in RUN_NAMES:
            path = places.display_path(entry.path)
            what = f"{path} has the same name as the runs of offload {entry.name}"
            raise UsageError(what, "rename it")
    return found


def tasks() -> dict[str, Entry]:
    """Return all tasks by name: the public functions of tasks/*.py and their aliases.

    Raise UsageError if two files define one name.
    """
    found: dict[str, Entry] = {}
    for entry in (
        e for path in entries.files(FOLDER / "tasks") for e in entries.read_functions(path)
    ):
        other = found.setdefault(entry.name, entry)
        if other is not entry:
            fix = "rename one, or start its name with _ if it is not a task"
            raise _conflict(other, entry, f"define {entry.name!r}", fix)
    return found


def find_server(word: str) -> Entry:
    """Find a server by number, name or an ALSO spelling (`2_group`); raise UsageError.

    >>> find_server("3").name, find_server("2_group").name
    ('threads', 'loop')
    """
    found = servers()
    for entry in found.values():
        if word in _spellings(entry):
            return entry
    choices = list(found)
    if word[:1].isdigit():
        numbers = [s for e in found.values() for s in sorted(_spellings(e)) if s[:1].isdigit()]
        choices = [*numbers, *choices]
    raise _missing("servers", word, choices)


def default_task(word: str) -> str:
    """Return the task that runs when the command names only this server."""
    return find_server(word).also.get(word, "sleep_sync")


def find_driver(word: str) -> Entry:
    """Find a load driver by name; raise UsageError."""
    return _find("loads", word, drivers())


def find_suite(word: str) -> Entry:
    """Find a suite by name; raise UsageError."""
    return _find("suites", word, suites())


NAME = r"[^\W\d]\w*"  # of a function or another object in Python
USER_TASK = re.compile(rf"(?P<where>[^:\x00-\x1f]+):(?P<function>{NAME})")
USER_FILE = re.compile(r"(?P<where>[^:\x00-\x1f]+\.py):?")  # USER_TASK without the function


def is_own(task: str) -> bool:
    """Whether the name of a task is that of a user's own function, not of one of this project."""
    return ":" in task


def find_task(word: str, folder: str | None = None) -> Entry:
    """Find a task by name, or return a user's `package.module:function` or `file.py:function`.

    A module is searched in `folder` (by default TASK_PATH or the current folder) and on sys.path;
    it is no error if it is not found, because only the server's interpreter may have it. The name
    of a user's application is `app=package.module:name`. The file of a user's task is not imported:
    only its constants are read. Raise UsageError.
    """
    if is_application(word):
        return _find_application(word)
    task, given = split_inputs(word)
    if given is not None:
        return _with_inputs(find_task(task, folder), given)
    if file := USER_FILE.fullmatch(word):
        raise _without_function("file", file["where"], _user_file(file["where"]))
    user_task = USER_TASK.fullmatch(word)
    folders = [str(places.task_folder(folder)), *sys.path]
    if user_task is None:
        if word.count(":") > 1:
            what = f"{word[:200]!r} has several colons"
            raise UsageError(what, "a task of your own is package.module:function, without others")
        if ":" in word or "/" in word:
            hint = "a task of your own is package.module:function or path/to/file.py:function"
            raise UsageError(f"{word[:200]!r} does not name a function", hint)
        found = tasks()
        if word not in found and any(word in _spellings(server) for server in servers().values()):
            raise UsageError(
                f"{word!r} is a server, but a task is expected", "offload list shows both"
            )
        if word not in found:
            _check_module(word, folders)
        return _find("tasks", word, found)
    where = user_task["where"]
    if where.endswith(".py"):
        path: Path | None = _user_file(where)
        word = f"{path}:{user_task['function']}"
    else:
        path = entries.module_file(where, folders)
    constants = {} if path is None else entries.readable_constants(path)
    return Entry(word, path or Path(), "a user's own function", constants, {})


def _check_module(word: str, folders: list[str]) -> None:
    """Raise UsageError if a word is the name of a module, or of its function after a dot."""
    if path := entries.module_file(word, folders):
        raise _without_function("module", word, path)
    where, _, function = word.rpartition(".")
    if where and entries.module_file(where, folders):
        raise UsageError(f"{word!r} does not name a function", f"write {where}:{function}")


def _without_function(kind: str, where: str, path: Path) -> UsageError:
    """Return the error for a file or module that is named without one of its functions."""
    functions = [entry.name for entry in entries.read_functions(path)]
    listed = functions[:MAX_LISTED] + ["..."] * (len(functions) > MAX_LISTED)
    has = f"it has {', '.join(listed)}" if functions else "it has no public function yet"
    return UsageError(f"{where} is a {kind}, not a function", f"write {where}:FUNCTION, {has}")


def _with_inputs(task: Entry, given: str) -> Entry:
    """Return a task that is called with arguments; with varying inputs its results vary, too."""
    if ":" not in task.name:
        what = f"{task.name} takes no arguments"
        raise UsageError(what, "only your own functions can have arguments")
    constants = task.constants if is_input_file(given) else {**task.constants, "STABLE": False}
    return replace(task, name=join_inputs(task.name, given), constants=constants)


def _find_application(word: str) -> Entry:
    spelling = parse_application(word)
    summary, constants = "a user's own application", {"STABLE": False}
    if not spelling.is_file:
        return Entry(word, Path(), summary, constants, {})
    path = _user_file(spelling.where, f"check the path, or {APPLICATION_REMEDY}")
    return Entry(spelling.with_file(path), path, summary, constants, {})


def _user_file(where: str, form: str = "a task of your own is path/to/file.py:function") -> Path:
    try:
        path = Path(where).expanduser().resolve()
        if ":" in str(path):  # it separates the function in the name of a task
            raise UsageError(f"{str(path)[:200]!r} has a colon", "rename the file or its folder")
        if path.is_file():
            return path
    except (OSError, RuntimeError):  # the name is too long, or ~user does not exist
        path = Path(where)
    shown = repr(str(path)[:200])
    raise UsageError(f"no file {shown}", form)


def check_work(server: Entry, work: str) -> None:
    """Raise UsageError if the work is an application, but the server only runs tasks."""
    if is_application(work) and server.serves is None:
        known = ", ".join(servers_of())
        raise UsageError(f"{server.name} runs tasks, not an application", f"use one of {known}")


def servers_of(kind: str | None = None) -> list[str]:
    """Return the servers that serve a user's application: asgi, wsgi, tornado (None: any)."""
    found = servers().values()
    return sorted(e.name for e in found if e.serves is not None and kind in (None, e.serves))


def without_processes(server: Entry) -> UsageError:
    """Return the error for a number of processes of a server that has one process."""
    both = [e for e in servers().values() if {"processes", "workers"} <= e.settings.keys()]
    known = [e.name for e in both if e.name == "threads" or e.strategy == "threads"]
    what = f"{server.name} has one process that accepts connections"
    return UsageError(what, f"leave the processes out, or use one of {', '.join(known)}")


def has_constant_bodies(task: str, folder: str | None = None) -> bool:
    """Whether all responses of a task should be equal: unless its file has `STABLE = False`."""
    return bool(find_task(task, folder).constants.get("STABLE", True))


def has_checked_bodies(task: str, folder: str | None = None) -> bool:
    """Whether a response that differs from the first one is an error.

    For a user's function only with `STABLE = True` in its file, because it may return a value that
    rarely changes, such as the date.
    """
    entry = find_task(task, folder)
    is_ours = entry.path.is_relative_to(FOLDER)
    return bool(entry.constants.get("STABLE", is_ours))


def unknown(what: str, word: str, choices: list[str], listing: str = "offload list") -> UsageError:
    """Return the error for an unknown name, with the most similar of the choices.

    `listing` is the command that lists the choices if there are too many for one line.
    """
    shown = repr(word if len(word) <= 60 else word[:57] + "...")
    near = difflib.get_close_matches(word, choices, n=1)
    if near:
        fix = f"did you mean {near[0]}?"
    elif len(choices) <= MAX_LISTED:
        fix = f"choose from {', '.join(choices)}"
    else:
        fix = f"{listing} lists them all"
    return UsageError(f"no {shown} in {what}", fix)


def _spellings(entry: Entry) -> set[str]:
    """Return all spellings of a server: its name, its number and its ALSO spellings."""
    number = set() if entry.number is None else {str(entry.number)}
    return {entry.name, *number, *entry.also}


def _conflict(one: Entry, other: Entry, what: str, fix: str) -> UsageError:
    return UsageError(
        f"{places.display_path(one.path)} and {places.display_path(other.path)} both {what}", fix
    )


def _find(folder: str, word: str, found: Mapping[str, Entry]) -> Entry:
    if word in found:
        return found[word]
    raise _missing(folder, word, list(found))


def _missing(folder: str, word: str, choices: list[str]) -> UsageError:
    incomplete = entries.find_incomplete(FOLDER / folder).get(word)
    return unknown(f"{folder}/", word, choices) if incomplete is None else UsageError(incomplete)


# The arguments of a user's task: `@basket.json` is a file with JSON, a list of positional arguments
# or an object of named ones; `shop:baskets` is a function that yields those of successive calls.
WITH_INPUTS = re.compile(
    rf"(?P<task>[^()]+)\((?P<inputs>@[^()\x00-\x1f]+|[^()@:\x00-\x1f]+:{NAME})\)"
)
FILE_MARK = "@"


def split_inputs(word: str) -> tuple[str, str | None]:
    """Return the task and the inputs of a name: `@file`, `module:function` or None."""
    found = WITH_INPUTS.fullmatch(word)
    return (word, None) if found is None else (found["task"], found["inputs"])


def is_input_file(inputs: str) -> bool:
    """Whether inputs are the content of a file, which is the same in each call."""
    return inputs.startswith(FILE_MARK)


def join_inputs(task: str, inputs: str) -> str:
    """Return the name of a task with inputs; the path of a file becomes absolute.

    Raise UsageError if there is no such file.
    """
    if is_input_file(inputs):
        inputs = f"{FILE_MARK}{_input_file(inputs.removeprefix(FILE_MARK))}"
    word = f"{task}({inputs})"
    if "(" in task + inputs or ")" in task + inputs:
        what = f"args= and inputs= need paths without parentheses, unlike {(task + inputs)[:200]!r}"
        raise UsageError(what, "rename the file or its folder")
    if WITH_INPUTS.fullmatch(word) is None:
        raise UsageError(f"{inputs[:100]!r} names no inputs", "write @file.json or module:function")
    return word


def _input_file(text: str) -> Path:
    """Return the absolute path of a file with arguments; raise UsageError."""
    try:
        path = Path(text).expanduser().absolute()
        if path.is_file():
            return path
    except (OSError, RuntimeError):  # the name is too long, or the user of ~user does not exist
        path = Path(text)
    raise UsageError(f"no file {str(path)[:200]!r} with arguments", "write @path/to/file")


# A user's application
PREFIX = "app="
APPLICATION = re.compile(
    rf"(?P<where>[^:\x00-\x1f]+)(?::(?P<attribute>{NAME}(?:\.{NAME})*)(?P<call>\(\))?)?"
)
APPLICATION_REMEDY = (
    "write app=package.module:name or app=path/to/file.py:name, with () behind it for a factory"
)


@dataclass(frozen=True)
class Spelling:
    """A module or a file, the `attribute` in it (None: a usual name), and whether to call it."""

    where: str
    attribute: str | None
    is_factory: bool

    @property
    def is_file(self) -> bool:
        """Whether the application is in a file instead of an importable module."""
        return self.where.endswith(".py")

    def with_file(self, path: object) -> str:
        """Return the spelling of the same application in the file `path`, as a task name."""
        attribute = f":{self.attribute}" if self.attribute else ""
        return f"{PREFIX}{path}{attribute}{'()' if self.is_factory else ''}"


def is_application(work: str) -> bool:
    """Whether the work of a case is a user's application instead of a task."""
    return work.startswith(PREFIX)


def parse_application(work: str) -> Spelling:
    """Parse `app=shop.web:app`; raise UsageError."""
    text = work.removeprefix(PREFIX)
    found = APPLICATION.fullmatch(text)
    if found is None:
        raise UsageError(f"{text[:100]!r} does not name an application", APPLICATION_REMEDY)
    return Spelling(found["where"], found["attribute"], found["call"] is not None)
