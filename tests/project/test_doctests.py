"""The examples in docstrings and pages return what they show."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from offload.registry.places import PACKAGE
from tests.project.test_readme import PAGES


def with_examples(paths: list[Path]) -> list[Path]:
    return [path for path in paths if "\n>>> " in path.read_text().replace("    >>>", ">>>")]


MODULES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in with_examples(sorted(PACKAGE.rglob("*.py")))
]
TEXTS = with_examples(PAGES)


def test_there_are_examples() -> None:  # those of the pool are in its own tests
    assert len(MODULES) >= 9
    assert len(TEXTS) >= 1


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_true(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_the_examples_of_a_page_are_true(path: Path) -> None:
    result = doctest.testfile(str(path), module_relative=False)
    assert (result.attempted > 0, result.failed) == (True, 0)


def test_a_wrong_example_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "wrong.rst").write_text(">>> 1 + 1\n3\n")
    result = doctest.testfile(str(tmp_path / "wrong.rst"), module_relative=False)
    assert (result.attempted, result.failed) == (1, 1)
    assert "Got:" in capsys.readouterr().out
