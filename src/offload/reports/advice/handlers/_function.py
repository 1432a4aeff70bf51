"""The function that a handler calls: its import, and whether it can be pickled."""

from __future__ import annotations

import ast
import keyword
from dataclasses import dataclass
from pathlib import Path

from offload.errors import UsageError
from offload.registry import catalog, places, source

ALIAS = "work"  # name of the function in a program that uses its own name for something else


@dataclass(frozen=True)
class Function:
    """A function of a module; `local` is its name in the program.

    `folder` is the folder from which the module is imported; None if the module is installed.
    `is_picklable` is true if the module defines the function by a plain `def`: other processes can
    import it by its name.
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
    """Return the function of a task; its module is searched in the folder `path` first.

    The module is parsed but not imported.
    """
    entry = catalog.find_task(task, path)
    where, _, own = entry.name.rpartition(":")
    name, file, folder = own or task, entry.path, None
    if not where or file.parent == (catalog.FOLDER / "tasks").resolve():
        module = f"offload.tasks.{file.stem}"
    elif where.endswith(".py"):
        module, folder = file.stem, file.parent
    else:
        module, users = where, places.task_folder(path)
        folder = users if source.module_file(where, [str(users)]) else None
    return Function(task, module, name, is_coroutine, _is_plain(file, name), folder)


def _is_plain(file: Path, name: str) -> bool:
    """Whether a file defines the function once, at module level and without a decorator.

    False if this Python cannot parse the file: the function may be run by another one.
    """
    if file.suffix != ".py" or not file.is_file():
        return False
    try:
        body = source.parse(file).body
    except UsageError:
        return False
    defined = [
        node
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    ]
    return len(defined) == 1 and not defined[0].decorator_list
