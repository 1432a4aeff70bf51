"""What there is: servers, tasks, drivers and suites, found by reading their files alone."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path

from offload.errors import UsageError
from offload.registry import entries, places
from offload.registry.entries import Entry

FOLDER = places.PACKAGE  # of servers/, tasks/, loads/ and suites/
RUN_NAMES = ("check_method", "compare", "gil", "load_tests", "measure", "scale")
FEW = 12  # names that an error still lists
USER_TASK = re.compile(r"(?P<where>[^:\x00-\x1f]+):(?P<function>[A-Za-z_][A-Za-z0-9_]*)")
USER_FILE = re.compile(r"(?P<where>[^:\x00-\x1f]+\.py):?")  # as USER_TASK, the function left out


def servers() -> dict[str, Entry]:
    """Every server by name: the numbered ones first, in the order of their numbers.

    Raise UsageError if one word names two.
    """
    found = entries.of_modules(FOLDER / "servers", "serve").values()
    owners: dict[str, Entry] = {}
    for entry in found:
        for word in _spellings(entry):
            other = owners.setdefault(word, entry)
            if other is not entry:
                hint = "give one a NUMBER and ALSO of its own, or none: its name finds it too"
                raise _both(other, entry, f"answer to {word!r}", hint)
    return {e.name: e for e in sorted(found, key=lambda e: (e.number is None, e.number, e.name))}


def drivers() -> dict[str, Entry]:
    """Every load driver by name."""
    return entries.of_modules(FOLDER / "loads", "command")


def suites() -> dict[str, Entry]:
    """Every suite by name; raise UsageError for one whose runs would be taken for a command's."""
    found = entries.of_modules(FOLDER / "suites", None)
    for entry in found.values():
        if entry.name in RUN_NAMES:
            what = f"{places.shown(entry.path)} has the name of the runs of fab {entry.name}"
            raise UsageError(f"{what}: rename it")
    return found


def tasks() -> dict[str, Entry]:
    """Every task by name: the public functions of tasks/*.py and their aliases, file by file.

    Raise UsageError if two files define one name.
    """
    found: dict[str, Entry] = {}
    for entry in (
        e for path in entries.files(FOLDER / "tasks") for e in entries.of_functions(path)
    ):
        other = found.setdefault(entry.name, entry)
        if other is not entry:
            hint = "rename one, or begin it with _ if it is no task"
            raise _both(other, entry, f"define {entry.name!r}", hint)
    return found


def find_server(word: str) -> Entry:
    """Find a server by number, name or an ALSO spelling (`2_group`); raise UsageError."""
    found = servers()
    for entry in found.values():
        if word in _spellings(entry):
            return entry
    choices = list(found)
    if word[:1].isdigit():
        spelt = [s for e in found.values() for s in sorted(_spellings(e)) if s[:1].isdigit()]
        choices = [*spelt, *choices]
    raise _missing("servers", word, choices)


def default_task(word: str) -> str:
    """Name the task that a server's spelling stands for when none is given."""
    return find_server(word).also.get(word, "sleep_sync")


def find_driver(word: str) -> Entry:
    """Find a load driver by name; raise UsageError."""
    return _named("loads", word, drivers())


def find_suite(word: str) -> Entry:
    """Find a suite by name; raise UsageError."""
    return _named("suites", word, suites())


def find_task(word: str) -> Entry:
    """Find a task by name, or take a user's own `package.module:function` or `file.py:function`.

    Of a user's task only the file's existence is checked here: it is imported where it runs.
    """
    if file := USER_FILE.fullmatch(word):
        where = file["where"]
        there = [entry.name for entry in entries.of_functions(_own_file(where))]
        few = there[:FEW] + ["..."] * (len(there) > FEW)
        has = f"it has {', '.join(few)}" if there else "it has no public function yet"
        raise UsageError(f"which function of {where}? write {where}:FUNCTION, {has}")
    own = USER_TASK.fullmatch(word)
    if own is None:
        found = tasks()
        if word not in found and any(word in _spellings(server) for server in servers().values()):
            raise UsageError(f"{word!r} is a server, where a task is wanted: fab list names both")
        return _named("tasks", word, found)
    if not own["where"].endswith(".py"):
        return Entry(word, Path(), "a user's own function", {}, {})
    path = _own_file(own["where"])
    return Entry(f"{path}:{own['function']}", path, "a user's own function", {}, {})


def unknown(what: str, word: str, choices: list[str], listing: str = "fab list") -> UsageError:
    """Word the error for a name that is not among the choices, with the nearest one.

    `listing` is the command that names the choices, where they are too many for a line.
    """
    shown = repr(word if len(word) <= 60 else word[:57] + "...")
    near = difflib.get_close_matches(word, choices, n=1)
    few = (
        f"choose from {', '.join(choices)}" if len(choices) <= FEW else f"{listing} names them all"
    )
    hint = f"did you mean {near[0]}?" if near else few
    return UsageError(f"no {shown} in {what}: {hint}")


def _spellings(entry: Entry) -> set[str]:
    """All words that name a server: its name, its number, and those of its ALSO."""
    number = set() if entry.number is None else {str(entry.number)}
    return {entry.name, *number, *entry.also}


def _both(one: Entry, other: Entry, what: str, hint: str) -> UsageError:
    return UsageError(
        f"{places.shown(one.path)} and {places.shown(other.path)} both {what}: {hint}"
    )


def _own_file(where: str) -> Path:
    try:
        path = Path(where).expanduser().resolve()
        if path.is_file():
            return path
    except (OSError, RuntimeError):  # a name too long, a home of nobody
        path = Path(where)
    shown = repr(str(path)[:200])
    raise UsageError(f"no file {shown}: a task of your own is path/to/file.py:function")


def _named(folder: str, word: str, found: Mapping[str, Entry]) -> Entry:
    if word in found:
        return found[word]
    raise _missing(folder, word, list(found))


def _missing(folder: str, word: str, choices: list[str]) -> UsageError:
    without = entries.incomplete(FOLDER / folder).get(word)
    return unknown(f"{folder}/", word, choices) if without is None else UsageError(without)
