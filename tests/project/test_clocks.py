"""No clock function is captured when a file is imported: a changed clock would not reach its user.

A dataclass field with `default_factory=time.monotonic` keeps the function that the module had when
the class was made. So a test that sets the clock compares its own times with those of the machine,
and passes or fails by how long the machine is up.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests import ROOT

FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
DEFAULTS = ("default_factory", "factory", "default")
FOLDERS = ("src", "servers", "tasks", "pipepool", "scripts", "tests", "lab", "docs")
READINGS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
CLOCKS = {
    *(f"time.{name}{unit}" for name in READINGS for unit in ("", "_ns")),
    *(f"time.{name}" for name in ("clock_gettime", "clock_gettime_ns", "localtime", "gmtime")),
    *(f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")),
    "datetime.date.today",
    "os.times",
}


def captures(source: str) -> list[tuple[int, str]]:
    """List the line and the name of each clock function that source code captures.

    That is one which is passed on or read while the file is imported, is the default of a parameter
    or of a dataclass field, or is an argument of `partial`. An import of its name is none.
    """
    tree = ast.parse(source)
    names = _imported(tree)
    found = set()
    for expression in _definitions(tree):
        for node in _evaluated(expression):
            if (name := _full(node, names)) in CLOCKS:
                found.add((getattr(node, "lineno", 0), name))
    return sorted(found)


def _definitions(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield what is evaluated by the import of a module, and defaults anywhere in it."""
    yield tree
    for node in ast.walk(tree):
        if isinstance(node, FUNCTION):
            yield from (each for each in (*node.args.defaults, *node.args.kw_defaults) if each)
        elif isinstance(node, ast.keyword) and node.arg in DEFAULTS:
            yield node.value
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "partial":
            yield from node.args


def _evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and those in it that are evaluated with it: not the bodies of functions."""
    yield node
    for field, value in ast.iter_fields(node):
        if isinstance(node, FUNCTION) and field == "body":
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'":
            continue  # a program, not a definition
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST):
                yield from _evaluated(each)


def _imported(tree: ast.Module) -> dict[str, str]:
    """Map the names that a file imports to their full names."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.asname or each.name: each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return names


def _full(node: ast.AST, names: dict[str, str]) -> str:
    """Return the full name of what a dotted expression refers to; else an empty text."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute) and (owner := _full(node.value, names)):
        return f"{owner}.{node.attr}"
    return ""


def test_no_file_captures_a_clock_function() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, name in captures(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "@dataclass\nclass A:\n    at: float = field(default_factory=time.monotonic)",
        "def made():\n    return make_dataclass('A', [('at', int, field(default_factory=stamp))])",
        "def wait(ends=time.monotonic() + 5): ...",
        "def wait(*, clock=monotonic): ...",
        "async def wait(clock=stamp): ...",
        "wait = lambda clock=t.perf_counter: clock()",
        "def later():\n    def wait(clock=time.thread_time_ns): ...",
        "def later():\n    return partial(call, time.process_time)",
        "read = functools.partial(time.clock_gettime, 1)",
        "now = time.monotonic",
        "now: object = datetime.now",
        "STARTED = time.time()",
        "class A:\n    clock = staticmethod(time.monotonic)",
        "class A:\n    made = dates.datetime.today()",
        "try:\n    now = monotonic\nexcept ImportError:\n    now = None",
        "real, jumps = time.monotonic, 1",
        "if True:\n    clocks = {'wall': time.time}",
        "@timed(by=time.perf_counter)\ndef work(): ...",
        "register(time.monotonic)",
    ],
)
def test_a_captured_clock_function_is_found(code: str) -> None:
    imports = (
        "import functools, time, time as t, datetime as dates\nfrom datetime import datetime\n"
        "from functools import partial\nfrom time import monotonic, time_ns as stamp\n"
    )
    [(line, _)] = captures(imports + code)
    assert line > 4


@pytest.mark.parametrize(
    "code",
    [
        "from time import monotonic\ndef wait(s):\n    ends = monotonic() + s\n    now = monotonic",
        "import time\nat = field(default_factory=lambda: time.time())",
        "import time\nif __name__ == '__main__':\n    print(time.time())",
        "import time\nread = functools.partial(time.sleep, 0)\nclass A:\n    time = 1.0",
        "def wait(monotonic=None):\n    return monotonic()",
    ],
)
def test_a_clock_that_is_read_when_it_is_needed_is_no_capture(code: str) -> None:
    assert captures(code) == []
