"""Every read of a pipe and every wait in a test has a deadline."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests import ROOT

FILES = sorted((ROOT / "tests").rglob("*.py"))
RUN = {"run", "check_output", "check_call", "call"}  # of subprocess
BOUNDED = {"communicate", "wait", "join"}  # whose first argument or timeout= is a limit
UNBOUNDED = {"readline", "readlines"}  # use tests.waiting.read_line instead


def calls_without_limit(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of the calls that may wait without a limit."""
    awaited = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Await)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if id(node) in awaited:  # asyncio has its own deadlines
            continue
        name, owner = node.func.attr, ast.unparse(node.func.value)
        words = {keyword.arg for keyword in node.keywords}
        is_run = owner == "subprocess" and name in RUN and not words & {"timeout", None}
        is_wait = name in BOUNDED and not node.args and "timeout" not in words
        is_read = name == "read" and owner.endswith((".stdout", ".stderr"))
        is_line = name in UNBOUNDED and owner != "sys.stdin"  # which ends with the parent
        if is_run or is_wait or is_read or is_line:
            yield node.lineno, f"{owner}.{name}"


def test_every_wait_has_a_deadline() -> None:
    found = {path: list(calls_without_limit(ast.parse(path.read_text()))) for path in FILES}
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
def test_a_wait_without_a_deadline_is_found(line: str) -> None:
    assert len(list(calls_without_limit(ast.parse(line)))) == 1
    assert (
        list(
            calls_without_limit(
                ast.parse("process.wait(5), event.wait(timeout=1), ','.join(names)")
            )
        )
        == []
    )
