"""Each defence that docs/security.rst claims names a test that exists."""

from __future__ import annotations

import ast
import re

import pytest

from tests import ROOT

TEXT = (ROOT / "docs" / "security.rst").read_text()
NAMED = re.findall(r"``(tests/[\w/]+\.py)::(\w+)``", TEXT)


def test_the_page_names_tests() -> None:
    assert len(NAMED) == TEXT.count("``tests/") > 15


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_test_of_the_page_exists(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
