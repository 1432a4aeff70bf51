"""What there is: servers, tasks, drivers and suites, found by reading their files alone."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import source
from errors import UsageError

ROOT = source.ROOT
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
FEW = 12  # names that an error still lists
USER_TASK = re.compile(r"(?P<where>[^:\x00-\x1f]+):(?P<function>[A-Za-z_][A-Za-z0-9_]*)")
USER_FILE = re.compile(r"(?P<where>[^:\x00-\x1f]+\.py):?")  # as USER_TASK, the function left out


@dataclass(frozen=True)
class Entry:
    """A thing that can be named: `summary` is the first line of its docstring.

    `constants` are the literal constants of its file (NUMBER, NEEDS, STABLE); `settings` the
    keyword-only parameters of a server's `serve` with their defaults.
    """

    name: str
    path: Path
    summary: str
    constants: Mapping[str, object]
    settings: Mapping[str, object]

    @property
    def number(self) -> int | None:
        """The NUMBER a server may be called by, None for all others."""
        number = self.constants.get("NUMBER")
        return number if isinstance(number, int) else None

    @property
    def also(self) -> Mapping[str, str]:
        """Other spellings of a server, each with the task that it stands for."""
        also = self.constants.get("ALSO")
        return also if isinstance(also, dict) else {}

    @property
    def needs(self) -> tuple[str, ...]:
        """What a task needs beside the server: "upstream", "internet"; what a server imports."""
        needs = self.constants.get("NEEDS")
        return needs if isinstance(needs, tuple) else ()

    @property
    def needs_python(self) -> tuple[int, ...]:
        """The oldest Python a server runs in, as (3, 14); empty when any will do."""
        needs = self.constants.get("NEEDS_PYTHON")
        return needs if isinstance(needs, tuple) else ()

    def spelling(self, task: str) -> str:
        """The shortest word for a server that runs `task`: `2_group`, its number or its name."""
        spellings = [word for word, stands_for in self.also.items() if stands_for == task]
        return spellings[0] if spellings else str(self.number or self.name)


def servers() -> dict[str, Entry]:
    """Every server by name: the numbered ones first, in the order of their numbers.

    Raise UsageError if one word names two.
    """
    found = _modules(ROOT / "servers", "serve").values()
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
    return _modules(ROOT / "loads", "command")


def suites() -> dict[str, Entry]:
    """Every suite by name."""
    return _modules(ROOT / "suites", None)


def tasks() -> dict[str, Entry]:
    """Every task by name: the public functions of tasks/*.py and their aliases, file by file.

    Raise UsageError if two files define one name.
    """
    found: dict[str, Entry] = {}
    for entry in (entry for path in _files(ROOT / "tasks") for entry in _functions(path)):
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
    raise unknown("servers/", word, choices)


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
        there = [entry.name for entry in _functions(_own_file(where))]
        few = there[:FEW] + ["..."] * (len(there) > FEW)
        has = f"it has {', '.join(few)}" if there else "it has no public function yet"
        raise UsageError(f"which function of {where}? write {where}:FUNCTION, {has}")
    own = USER_TASK.fullmatch(word)
    if own is None:
        return _named("tasks", word, tasks())
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
        f"{source.shown(one.path)} and {source.shown(other.path)} both {what}: {hint}"
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
    raise unknown(f"{folder}/", word, list(found))


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob("*.py") if NAME.fullmatch(p.stem) and p.stem[0] != "_")


def _modules(folder: Path, function: str | None) -> dict[str, Entry]:
    """Read each file of a folder as one entry; with `function` only those that define it."""
    found = {}
    for path in _files(folder):
        tree = source.parse(path)
        defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        if function is not None and function not in defined:
            continue
        settings = source.keywords(path, defined[function]) if function else {}
        found[path.stem] = Entry(
            path.stem, path, source.summary(tree), source.constants(tree), settings
        )
    return found


def _functions(path: Path) -> list[Entry]:
    """Read one task file: its public functions, and names assigned from them."""
    tree = source.parse(path)
    constants = source.constants(tree)
    found: dict[str, Entry] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
            found[node.name] = Entry(node.name, path, source.summary(node), constants, {})
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            original = found.get(node.value.id)
            for target in node.targets:
                if original and isinstance(target, ast.Name):
                    summary = f"The same as {original.name}."
                    found[target.id] = Entry(target.id, path, summary, constants, {})
    return list(found.values())
