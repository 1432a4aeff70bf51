"""The arguments of a user's task, which are written after its name: `shop:quote(@basket.json)`.

`@basket.json` is a file with a JSON list of positional arguments, or an object of named ones.
`shop:baskets` is a function that yields the inputs of successive calls.
"""

from __future__ import annotations

import re
from pathlib import Path

from offload.errors import UsageError

NAME = r"[^\W\d]\w*"  # of a function or another object in Python
FORM = re.compile(rf"(?P<task>[^()]+)\((?P<inputs>@[^()\x00-\x1f]+|[^()@:\x00-\x1f]+:{NAME})\)")
FILE_MARK = "@"


def split(word: str) -> tuple[str, str | None]:
    """Return the task and the inputs of a name: `@file`, `module:function` or None."""
    found = FORM.fullmatch(word)
    return (word, None) if found is None else (found["task"], found["inputs"])


def is_file(inputs: str) -> bool:
    """Whether inputs are the content of a file, which is the same in each call."""
    return inputs.startswith(FILE_MARK)


def join(task: str, inputs: str) -> str:
    """Return the name of a task with inputs; the path of a file becomes absolute.

    Raise UsageError if there is no such file.
    """
    if is_file(inputs):
        inputs = f"{FILE_MARK}{_file(inputs.removeprefix(FILE_MARK))}"
    word = f"{task}({inputs})"
    if "(" in task + inputs or ")" in task + inputs:
        what = f"args= and inputs= need paths without parentheses, unlike {(task + inputs)[:200]!r}"
        raise UsageError(what, "rename the file or its folder")
    if FORM.fullmatch(word) is None:
        raise UsageError(f"{inputs[:100]!r} names no inputs", "write @file.json or module:function")
    return word


def _file(text: str) -> Path:
    """Return the absolute path of a file with arguments; raise UsageError."""
    try:
        path = Path(text).expanduser().absolute()
        if path.is_file():
            return path
    except (OSError, RuntimeError):  # the name is too long, or the user of ~user does not exist
        path = Path(text)
    raise UsageError(f"no file {str(path)[:200]!r} with arguments", "write @path/to/file")
