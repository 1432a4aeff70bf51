"""Which lines of the user's code sleep before they try a failed call again, by its syntax.

A retry loop is left once a call succeeds: by `return` or `break` in the `try` whose handler stays
in the loop, or after it, or because its condition reads what the `try` sets. Without a `try` its
variables are named so, such as `attempt`. A line sleeps if it calls a function named `sleep`.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from offload import files

NAMED = re.compile(r"(?:^|_)(?:attempts?|retry|retries|tries|backoff)(?:_|$)", re.IGNORECASE)
POLLS = {"Empty", "QueueEmpty"}  # exceptions by which a queue is polled
LOOPS = (ast.For, ast.AsyncFor, ast.While)
ELSEWHERE = (*LOOPS, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
LEAVES = (ast.Return, ast.Break)
KEPT = 100  # files


@dataclass(frozen=True)
class _Lines:
    """The lines of a file that sleep, and those of retry loops and of their handlers."""

    sleeps: frozenset[int] = frozenset()
    loops: frozenset[int] = frozenset()
    handlers: frozenset[int] = frozenset()


def sleeps_before_retry(places: Sequence[tuple[str, int]]) -> bool:
    """Whether the user's frames of a stack, files and lines, sleep before a retry.

    The innermost is the last one: it sleeps, in a retry loop or called by a handler of one.
    """
    if not places:
        return False
    file, line = places[-1]
    found = _read(file)
    if line not in found.sleeps:
        return False
    return line in found.loops or any(line in _read(file).handlers for file, line in places)


def _read(file: str) -> _Lines:
    try:
        found = Path(file).stat()
        return _parse(file, found.st_mtime_ns, found.st_size)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return _Lines()


@lru_cache(KEPT)
def _parse(file: str, _modified_ns: int, _size: int) -> _Lines:
    """Parse a file, again only if it has changed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the user's code
        tree = ast.parse(files.read(Path(file)))
    loops: list[ast.AST] = []
    handlers: list[ast.AST] = []
    for loop in ast.walk(tree):
        if isinstance(loop, LOOPS) and (found := _retries(loop)) is not None:
            loops.append(loop)
            handlers += found
    sleeps = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and _sleeps(each)]
    return _Lines(*(frozenset(_lines(each)) for each in (sleeps, loops, handlers)))


def _retries(loop: ast.For | ast.AsyncFor | ast.While) -> list[ast.ExceptHandler] | None:
    """Return the handlers of a loop if it tries calls again; None if it does not."""
    tries = [each for each in _inside(loop.body) if isinstance(each, ast.Try)]
    found = [each for each in tries if not _polls(each) and _ends(loop, each)]
    if found:
        return [handler for each in found for handler in each.handlers]
    head = loop.test if isinstance(loop, ast.While) else loop.target
    is_named = any(NAMED.search(name) for name in _names(head))
    is_left = any(isinstance(each, LEAVES) for each in _inside(loop.body))
    return [] if is_named and is_left and not tries else None


def _ends(loop: ast.For | ast.AsyncFor | ast.While, call: ast.Try) -> bool:
    """Whether a loop is left once what it tries succeeds."""
    if not call.handlers:
        return False
    after = loop.body[loop.body.index(call) + 1 :] if call in loop.body else []
    if any(isinstance(each, LEAVES) for each in _inside([*call.body, *call.orelse, *after])):
        return True
    known = set(_names(loop.test)) if isinstance(loop, ast.While) else set()
    stored = (each for each in _inside(call.body) if isinstance(each, ast.Assign))
    return any(known.intersection(_names(target)) for each in stored for target in each.targets)


def _polls(call: ast.Try) -> bool:
    kinds = [each.type for each in call.handlers if each.type is not None]
    return bool(kinds) and all(POLLS.intersection(_names(kind)) for kind in kinds)


def _inside(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of statements, but not those of loops, functions and classes in them."""
    left = [*body]
    while left:
        node = left.pop()
        if not isinstance(node, ELSEWHERE):
            yield node
            left += ast.iter_child_nodes(node)


def _names(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr


def _sleeps(call: ast.Call) -> bool:
    name = getattr(call.func, "attr", None) or getattr(call.func, "id", None)
    return name == "sleep"


def _lines(nodes: Sequence[ast.AST]) -> Iterator[int]:
    for node in nodes:
        first = getattr(node, "lineno", 0)
        yield from range(first, (getattr(node, "end_lineno", None) or first) + 1)
