"""A mistake in a suite's file is reported in one line with its place, in every command."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from offload import suites
from offload.registry import catalog, places
from offload.studies import suite
from tests.commands import CompletedCommand, fab, fab_here

GOOD = """\
from offload.suites import Case, Claim

ONE, OTHER = Case("loop", "noop_sync"), Case("threads", "noop_sync")
CASES = (ONE, OTHER)
GROUPS = {"both": CASES}
SAID = dict(who="me", where="here", statement="it is four", conditions="none")
CLAIMS = (
    Claim("four", one=ONE, other=OTHER, ratio=4.0, **SAID),
)
"""
READ = "suites/mine.py:8 cannot be read"
MISTAKES = {
    "an undefined case": ("=ONE", "=ONES", f"{READ} (NameError: name 'ONES' is not defined"),
    "a figure misspelt": ("4.0,", "4.0, figure='rates',", f"{READ} (ValueError: figure='rates' "),
    "no ratio": ("=4.0", "=0", f"{READ} (ValueError: ratio=0 of 'four' is not a number above 0)"),
    "words for a ratio": ("=4.0", "='x'", f"{READ} (ValueError: ratio='x' of 'four' "),
    "a field missing": ("ratio=4.0,", "", f"{READ} (TypeError: "),
    "no GROUPS": ("GROUPS =", "MINE =", "suites/mine.py has no GROUPS: define it"),
    "a syntax error": ("CASES = (", "CASES = ((", "cannot be read"),
}


@pytest.fixture
def suites_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of suites of a project whose other files are the real ones."""
    for path in catalog.FOLDER.iterdir():
        if path.name != "suites":
            (tmp_path / path.name).symlink_to(path)
    folder = shutil.copytree(catalog.FOLDER / "suites", tmp_path / "suites")
    monkeypatch.setattr(catalog, "FOLDER", tmp_path)
    monkeypatch.setattr(places, "CHECKOUT", tmp_path)
    monkeypatch.setattr(suites, "__path__", [*suites.__path__, str(folder)])
    importlib.invalidate_caches()
    yield folder
    sys.modules.pop("offload.suites.mine", None)


def check(mistake: str, folder: Path, say: Callable[[str], CompletedCommand]) -> None:
    right, wrong, message = MISTAKES[mistake]
    (folder / "mine.py").write_text(GOOD.replace(right, wrong))
    for words in ("claims", "run_suite:mine"):
        said = say(words)
        assert (said.returncode, said.stderr.count("\n"), said.stdout) == (2, 1, ""), said.stderr
        assert message in said.stderr


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_with_its_place(mistake: str, suites_folder: Path) -> None:
    check(mistake, suites_folder, fab_here)


@pytest.mark.server
def test_it_is_so_where_a_user_types_it(a_copy: Path) -> None:
    check(
        "an undefined case",
        a_copy / "src" / "offload" / "suites",
        lambda words: fab(words, cwd=a_copy),
    )


def test_a_suite_without_a_mistake_is_judged_and_listed(suites_folder: Path) -> None:
    (suites_folder / "mine.py").write_text(GOOD)
    said = fab_here("claims:mine")
    assert (said.returncode, "  four  " in said.stdout) == (0, True), said.stdout + said.stderr
    assert "\n    mine" in fab_here("list").stdout


def test_a_suite_without_claims_has_a_plan(suites_folder: Path) -> None:
    (suites_folder / "mine.py").write_text(GOOD.partition("SAID")[0])
    plan = suite.suite_plan("mine", "", "builtin", is_quick=True, target=None)
    assert [case.server for case in plan.cases] == ["loop", "threads"]
