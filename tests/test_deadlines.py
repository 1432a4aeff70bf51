"""No test waits for ever: every read of a pipe and every wait for a process has a deadline."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("*.py"))
RUN = {"run", "check_output", "check_call", "call"}  # of subprocess
BOUNDED = {"communicate", "wait", "join"}  # whose first argument or timeout= is a limit
TESTED = {"vigil.wait"}  # what a test is of: it has the whole time of the test
UNBOUNDED = {"readline", "readlines"}  # for which there is tests.waiting.read_line


def endless(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Find the calls that could wait for ever: line and name."""
    awaited = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Await)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if id(node) in awaited:  # by a loop, which has deadlines of its own
            continue
        name, owner = node.func.attr, ast.unparse(node.func.value)
        words = {keyword.arg for keyword in node.keywords}
        is_run = owner == "subprocess" and name in RUN and not words & {"timeout", None}
        is_wait = name in BOUNDED and not node.args and "timeout" not in words
        is_wait = is_wait and f"{owner}.{name}" not in TESTED
        is_read = name == "read" and owner.endswith((".stdout", ".stderr"))
        is_line = name in UNBOUNDED and owner != "sys.stdin"  # which ends with the parent
        if is_run or is_wait or is_read or is_line:
            yield node.lineno, f"{owner}.{name}"


def test_every_wait_has_a_deadline() -> None:
    found = {path: list(endless(ast.parse(path.read_text()))) for path in FILES}
    assert len(found) > 80
    assert {str(path): calls for path, calls in found.items() if calls} == {}


@pytest.mark.parametrize(
    "line",
    [
        "subprocess.run(words, capture_output=True)",
        "process.communicate()",
        "process.wait()",
        "thread.join()",
        "process.stdout.readline()",
        "process.stderr.read()",
    ],
)
def test_a_wait_without_one_is_found(line: str) -> None:
    assert len(list(endless(ast.parse(line)))) == 1
    assert list(endless(ast.parse("process.wait(5), event.wait(timeout=1), ','.join(names)"))) == []
