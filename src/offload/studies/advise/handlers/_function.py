"""The function that a handler calls: its import, and whether it can be pickled."""

from __future__ import annotations

import ast
import json
import keyword
import math
from dataclasses import dataclass, replace
from pathlib import Path

from offload import files
from offload.errors import UsageError, escape_hidden
from offload.registry import catalog, entries, places

WIDTH, LONGEST = 80, 2000  # columns and characters of the source of arguments
ALIAS = "work"  # name of the function in a program that uses its own name for something else


@dataclass(frozen=True)
class Function:
    """A function of a module; `local` is its name in the program.

    `folder` is the folder from which the module is imported; None if the module is installed.
    `is_picklable` is true if the module defines the function by a plain `def`: other processes can
    import it by its name. `arguments` is the source of its arguments, a list or a dictionary of
    named ones; empty if it has none. `is_json`: its result becomes JSON.
    """

    task: str
    module: str
    name: str
    is_coroutine: bool
    is_picklable: bool
    folder: Path | None = None
    local: str = ALIAS
    arguments: str = ""
    is_json: bool = False

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

    The module is parsed but not imported. Raise UsageError if the file with its arguments cannot be
    read, or if their source is too long.
    """
    word, given = catalog.split_inputs(task)
    entry = catalog.find_task(word, path)
    where, _, own = entry.name.rpartition(":")
    name, file, folder = own or word, entry.path, None
    if not where or file.parent == (catalog.FOLDER / "tasks").resolve():
        module = f"offload.tasks.{file.stem}"
    elif where.endswith(".py"):
        module, folder = file.stem, file.parent
    else:
        module, task_folder = where, places.task_folder(path)
        folder = task_folder if entries.module_file(where, [str(task_folder)]) else None
    found = Function(task, module, name, is_coroutine, _is_plain(file, name), folder)
    return found if given is None else replace(found, arguments=arguments(given))


def arguments(given: str) -> str:
    """Return the source of the arguments in a file, `@path`; raise UsageError.

    The inputs of a generator differ in each call and have no source.
    """
    if not catalog.is_input_file(given):
        raise UsageError("code= needs the same arguments in each call", "use args=@file.json")
    path = Path(given.removeprefix(catalog.FILE_MARK))
    try:
        text = _source(json.loads(files.read(path), parse_constant=_refuse))
        text.encode()  # half of a surrogate pair cannot be saved
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "write a list or an object") from None
    if len(text) > LONGEST:
        what = f"the arguments in {path} are too long for a program"
        raise UsageError(what, "leave out code=, or use a smaller input")
    return text


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not a number")


def _source(value: object, indent: int = 0) -> str:
    """Return a value of JSON as Python source, in lines of about WIDTH columns."""
    if isinstance(value, dict):
        opening, closing = "{", "}"
        items = [f"{_source(key)}: {_source(each, indent + 4)}" for key, each in value.items()]
    elif isinstance(value, list):
        opening, closing = "[", "]"
        items = [_source(each, indent + 4) for each in value]
    else:
        if isinstance(value, float) and not math.isfinite(value):
            _refuse(repr(value))
        if isinstance(value, str):
            return escape_hidden(json.dumps(value, ensure_ascii=False))
        return repr(value)
    text = f"{opening}{', '.join(items)}{closing}"
    if len(text) + indent <= WIDTH and "\n" not in text:
        return text
    space = " " * indent
    lines = "".join(f"{space}    {item},\n" for item in items)
    return f"{opening}\n{lines}{space}{closing}"


def _is_plain(file: Path, name: str) -> bool:
    """Whether a file defines the function once, at module level and without a decorator.

    False if this Python cannot parse the file: the function may be run by another one.
    """
    if file.suffix != ".py" or not file.is_file():
        return False
    try:
        body = entries.parse_file(file).body
    except UsageError:
        return False
    defined = [
        node
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    ]
    return len(defined) == 1 and not defined[0].decorator_list
