"""A clone stays small: each committed run has at most 300 kB, and all files together 15 MB."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter

import pytest

from tests import ROOT

LARGEST_RUN = 300_000  # bytes
LARGEST_TREE = 15_000_000


@pytest.fixture(scope="module")
def sizes() -> dict[str, int]:
    """Return the size of each committed file."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("needs git and a clone")
    listed = subprocess.run(  # the clone may belong to another user
        ["git", "-c", "safe.directory=*", "ls-files", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    )
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    # without links, which lead to files that are counted, and without files that are removed
    own = [path for path in paths if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(ROOT)): path.stat().st_size for path in own}


def test_each_committed_run_is_small(sizes: dict[str, int]) -> None:
    runs = Counter[str]()
    for name, size in sizes.items():
        if name.startswith("results/") and name.count("/") > 1:
            runs[name.split("/")[1]] += size
    assert len(runs) >= 9
    assert {run: size for run, size in runs.items() if size > LARGEST_RUN} == {}
    assert [name for name in sizes if name.endswith("records.jsonl")] == []  # gzip it


def test_a_clone_is_small(sizes: dict[str, int]) -> None:
    assert len(sizes) > 1000
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:10]
    assert sum(sizes.values()) <= LARGEST_TREE, largest
