"""Every function of the corpus by name: a new one is tested as soon as it exists."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from typing import Any

import pytest

from lab import ROOT, corpus
from offload.registry import places
from tests.installed import lacks

ENTRIES = corpus.entries()
CORE = {"cryptography", "feedparser", "jinja2", "lxml", "requests"}  # make setup installs them
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
NEEDY = [pytest.mark.suites, pytest.mark.slow]  # called by make test-all
FIRST = {entry.path: name for name, entry in reversed(ENTRIES.items())}  # of each module


def marks(name: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a function: make test calls the first one of each module."""
    entry = ENTRIES[name]
    if set(entry.packages) - CORE:
        return NEEDY
    others = [] if FIRST[entry.path] == name else [pytest.mark.slow]
    return [pytest.mark.server, *others]


NAMES = [pytest.param(name, marks=marks(name)) for name in ENTRIES]
LONGEST = 2.0  # s of the second call, in the faster of two processes


def describe(name: str, environment: dict[str, str]) -> dict[str, Any]:
    argv = [sys.executable, "-m", "tests.lab.corpus.calling", name]
    ran = subprocess.run(
        argv, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=50
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_function_returns_the_same_bytes_in_every_process(
    name: str, environment: dict[str, str]
) -> None:
    missing = [p for p in ENTRIES[name].packages if importlib.util.find_spec(p) is None]
    if missing:
        pytest.skip(lacks(missing[0]))
    first, second = (describe(name, environment | {"PYTHONHASHSEED": seed}) for seed in ("1", "2"))
    assert first["kinds"] in (["bytes"], ["str"])
    assert first["bytes"] > 0
    assert first["pickles_by_name"]
    assert min(first["took_s"][1], second["took_s"][1]) < LONGEST
    if ENTRIES[name].constants.get("STABLE", True):
        assert len({*first["sha256"], *second["sha256"]}) == 1


@pytest.mark.parametrize("name", ENTRIES)
def test_the_summary_of_a_function_is_one_short_sentence(name: str) -> None:
    summary = ENTRIES[name].summary
    assert summary.endswith(".")
    assert len(summary) <= 93


@pytest.mark.parametrize("path", sorted({entry.path for entry in ENTRIES.values()}))
def test_packages_of_a_module_are_what_it_imports_and_can_be_installed(path: Any) -> None:
    from tests.project.test_imports import imported

    packages = next(e.packages for e in ENTRIES.values() if e.path == path)
    beyond = imported(path) - sys.stdlib_module_names - {"offload"}
    assert beyond - {"urllib3"} == set(packages)  # requests brings urllib3
    lines = [line for group in ("dev", "lab") for line in GROUPS[group] if isinstance(line, str)]
    installable = {line.partition(">")[0].replace("-", "_") for line in lines}
    assert {places.PROVIDED_BY.get(each, each) for each in packages} <= installable | CORE
