"""A mistake in a suite's file is one line that says where, in every command that reads suites."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import fab

GOOD = """\
from suites import Case, Claim

ONE, OTHER = Case("loop", "noop_sync"), Case("threads", "noop_sync")
CASES = (ONE, OTHER)
GROUPS = {"both": CASES}
SAID = dict(who="me", where="here", says="it is four", conditions="none")
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


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_with_its_place(mistake: str, a_copy: Path) -> None:
    right, wrong, message = MISTAKES[mistake]
    (a_copy / "suites" / "mine.py").write_text(GOOD.replace(right, wrong))
    for words in ("claims", "run_suite:mine"):
        said = fab(words, cwd=a_copy)
        assert (said.returncode, said.stderr.count("\n"), said.stdout) == (2, 1, ""), said.stderr
        assert message in said.stderr
