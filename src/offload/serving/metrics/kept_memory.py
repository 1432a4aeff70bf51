"""Which lines of the user allocate memory that stays: by tracemalloc, only while it is traced.

Traced are the blocks of Python's allocators, and those of libraries that report theirs, such as
NumPy. Code that is traced takes up to 10 times as long. Standard library only.
"""

from __future__ import annotations

import ast
import gc
import tracemalloc
from collections import Counter
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from offload.serving.metrics import user_code

KEEPS = "keeps memory"  # as in engine/hot_lines.py
FRAMES = 20  # of a stack, from the allocation on; with 40, code takes 15 times as long
MOST = 3  # lines
LEAST = 0.1  # share of what stays, below which a line is not reported
LEAST_BYTES = 1 << 15  # in use: less are those of the interpreter itself


def trace() -> None:
    """Trace what is allocated from now on."""
    tracemalloc.stop()  # the application may have started it, with fewer frames
    tracemalloc.start(FRAMES)


def end_trace() -> dict[str, Any]:
    """Return the lines that allocated what is still in use after a collection; end the trace.

    A line is the user's innermost one. `share` is that of all memory that was traced and stays, and
    `mib` its size.
    """
    if not tracemalloc.is_tracing():
        return {"mib": 0.0, "lines": []}
    gc.collect()
    snapshot = tracemalloc.take_snapshot()
    tracemalloc.stop()
    sizes, total = Counter[tuple[str, int]](), 0
    for found in snapshot.statistics("traceback"):
        total += found.size
        innermost = reversed(found.traceback)
        frame = next((each for each in innermost if user_code.is_users(each.filename)), None)
        if frame is not None:
            sizes[frame.filename, frame.lineno] += found.size
    lines = [
        {
            "function": _function(file, line),
            "file": user_code.relative(file),
            "line": line,
            "share": share,
            "doing": KEEPS,
        }
        for (file, line), size in sizes.most_common(MOST)
        if (share := round(size / total, 3)) >= LEAST and total >= LEAST_BYTES
    ]
    return {"mib": round(total / (1 << 20), 3), "lines": lines}


def _function(file: str, line: int) -> str:
    """Return the name of the innermost function with a line; that of the module has none."""
    found = "<module>"
    for first, last, name in _functions(file):
        if first <= line <= last:
            found = name
    return found


@lru_cache
def _functions(file: str) -> list[tuple[int, int, str]]:
    """Return the lines and the names of the functions in a file, outer ones first."""
    with suppress(OSError, ValueError, SyntaxError):
        nodes = ast.walk(ast.parse(Path(file).read_bytes()))
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        found = [(n.lineno, n.end_lineno or 0, n.name) for n in nodes if isinstance(n, kinds)]
        return sorted(found, key=lambda each: (each[0], -each[1]))
    return []
