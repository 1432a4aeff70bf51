"""What can be named, read from its file without importing it."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from offload.registry import places, source

MUST = {"servers": ("serve", "serve(task, port)"), "loads": ("command", "command(load)")}
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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
    module: str = ""  # its dotted name; of a task's file it is not needed

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
    def needs_upstream(self) -> bool:
        """Whether a task fetches from the upstream."""
        return "upstream" in self.needs

    @property
    def needs_python(self) -> tuple[int, ...]:
        """The oldest Python a server runs in, as (3, 14); empty when any will do."""
        needs = self.constants.get("NEEDS_PYTHON")
        return needs if isinstance(needs, tuple) else ()

    def spelling(self, task: str) -> str:
        """The shortest word for a server that runs `task`: `2_group`, its number or its name."""
        spellings = [word for word, stands_for in self.also.items() if stands_for == task]
        return spellings[0] if spellings else str(self.number or self.name)


def files(folder: Path) -> list[Path]:
    """Return the files of a folder that are named as modules and are not private, in order.

    Servers stand in sub-packages, too: one for each family.
    """
    found = folder.glob("**/*.py" if folder.name == "servers" else "*.py")
    return sorted(p for p in found if NAME.fullmatch(p.stem) and p.stem[0] != "_")


def of_modules(folder: Path, function: str | None) -> dict[str, Entry]:
    """Read each file of a folder as one entry; with `function` only those that define it."""
    found = {}
    for path in files(folder):
        tree = source.parse(path)
        defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        if function is not None and function not in defined:
            continue
        settings = source.keywords(path, defined[function]) if function else {}
        module = ".".join(["offload", *path.relative_to(folder.parent).with_suffix("").parts])
        constants = source.constants(tree)
        found[path.stem] = Entry(path.stem, path, source.summary(tree), constants, settings, module)
    return found


def incomplete(folder: Path) -> dict[str, str]:
    """Say of each file of a folder that lacks the function it is there for what to do, by name."""
    function, form = MUST.get(folder.name, (None, ""))
    if function is None:
        return {}
    missing = [path for path in files(folder) if path.stem not in of_modules(folder, function)]
    fix = "define it, or begin the name of the file with _"
    return {path.stem: f"{places.shown(path)} has no {form}: {fix}" for path in missing}


def of_functions(path: Path) -> list[Entry]:
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
