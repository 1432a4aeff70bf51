"""The function that a handler calls: how a program imports it, and whether pickle finds it."""

from __future__ import annotations

import ast
import importlib.machinery
import keyword
import sys
from dataclasses import dataclass
from pathlib import Path

from offload.registry import catalog, source

ALIAS = "work"  # the function's name in a program that has another use for its own


@dataclass(frozen=True)
class Function:
    """A function of a module; `local` is its name in the program.

    `folder` is the folder that the module is imported from, None if it is installed. A function is
    `picklable` if its module defines it by a plain `def`: then a process finds it by its name.
    """

    task: str
    module: str
    name: str
    is_coroutine: bool
    is_picklable: bool
    folder: Path | None = None
    local: str = ALIAS

    @property
    def import_line(self) -> str:
        """The line that imports the function."""
        alias = "" if self.local == self.name else f" as {self.local}"
        remark = "" if self.folder is None else "  # PYTHONPATH has its folder"
        words = self.module.split(".")
        if all(word.isidentifier() and not keyword.iskeyword(word) for word in words):
            return f"from {self.module} import {self.name}{alias}{remark}"
        return f'{self.local} = importlib.import_module("{self.module}").{self.name}{remark}'


def find(task: str, is_coroutine: bool, path: str | None) -> Function:
    """Return the function of a task, whose module is searched for in the folder `path` first.

    Its module is read, not imported.
    """
    entry = catalog.find_task(task)
    where, _, own = entry.name.rpartition(":")
    name, file = own or task, entry.path
    folder = None
    if not where or file.parent == (catalog.FOLDER / "tasks").resolve():
        module = f"offload.tasks.{file.stem}"
    elif where.endswith(".py"):
        module, folder = file.stem, file.parent
    else:
        own_folder = Path(path or ".").absolute()
        module, file = where, _source(where, [str(own_folder)])
        folder = own_folder if file.name else None
        file = file if file.name else _source(where, sys.path)
    return Function(task, module, name, is_coroutine, _is_plain(file, name), folder)


def _source(module: str, folders: list[str]) -> Path:
    """Return the file of a module without importing anything; an empty path if there is none."""
    for word in module.split("."):
        spec = importlib.machinery.PathFinder.find_spec(word, folders)
        if spec is None:
            return Path()
        folders = list(spec.submodule_search_locations or [])
    return Path(spec.origin) if spec is not None and spec.origin else Path()


def _is_plain(file: Path, name: str) -> bool:
    """Whether a file defines the function by a `def` of the module, without a decorator."""
    if file.suffix != ".py" or not file.is_file():
        return False
    defined = [
        node
        for node in source.parse(file).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    ]
    return len(defined) == 1 and not defined[0].decorator_list
