"""Which lines of the user's code sleep before they try a failed call again, by its syntax.

A loop tries again if it ends by `return` or `break` once a call succeeds, and handles an exception
or has a word such as "attempt" in it. Its lines that call a function `sleep` are meant, and those
in its exception handlers that call a function of the user which sleeps.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from offload import files

WORDS = re.compile(r"attempt|retr(?:y|ies)|tries|back_?off", re.IGNORECASE)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class _Lines:
    """The lines of a file that sleep, those of loops that try again, and of their handlers."""

    sleeping: frozenset[int] = frozenset()
    trying: frozenset[int] = frozenset()
    handling: frozenset[int] = frozenset()


def sleeps_before_retry(places: Sequence[tuple[str, int]]) -> bool:
    """Whether the user's frames of a stack, files and lines, sleep before a retry.

    The outermost is the first one. The files are parsed once.
    """
    if not places:
        return False
    file, line = places[-1]
    if line not in _read(file).sleeping:
        return False
    return line in _read(file).trying or any(line in _read(file).handling for file, line in places)


@cache
def _read(file: str) -> _Lines:
    try:
        text = files.read(Path(file)).decode()
        tree = ast.parse(text)
    except (OSError, ValueError, SyntaxError, RecursionError):
        return _Lines()
    loops = [each for each in ast.walk(tree) if isinstance(each, LOOPS) and _tries(each, text)]
    handlers = [
        each for loop in loops for each in _inside(loop) if isinstance(each, ast.ExceptHandler)
    ]
    sleeps = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and _sleeps(each)]
    return _Lines(*(frozenset(_lines(each)) for each in (sleeps, loops, handlers)))


def _tries(loop: ast.stmt, text: str) -> bool:
    """Whether a loop ends once a call succeeds."""
    inside = list(_inside(loop))
    handlers = [each for each in inside if isinstance(each, ast.ExceptHandler)]
    failing = {id(each) for handler in handlers for each in ast.walk(handler)}
    ends = any(
        isinstance(each, ast.Return | ast.Break) and id(each) not in failing for each in inside
    )
    words = not handlers and WORDS.search(ast.get_source_segment(text, loop) or "")
    return ends and bool(handlers or words)


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below one, but not those of functions in it."""
    for each in ast.iter_child_nodes(node):
        if not isinstance(each, FUNCTIONS):
            yield each
            yield from _inside(each)


def _sleeps(call: ast.Call) -> bool:
    name = getattr(call.func, "attr", None) or getattr(call.func, "id", None)
    return name == "sleep"


def _lines(nodes: Sequence[ast.AST]) -> Iterator[int]:
    for node in nodes:
        first = getattr(node, "lineno", 0)
        yield from range(first, (getattr(node, "end_lineno", None) or first) + 1)
