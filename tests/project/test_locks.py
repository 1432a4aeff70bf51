"""requirements.lock has all packages that are required, with the hashes of all their files."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import pipepool
from offload.registry import places
from tests import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
LOCK = (ROOT / "requirements.lock").read_text()
PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?P<marker> ; .+)?")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
COMPILED = ("lxml", "cryptography", "psutil", "httptools")  # with a wheel for each Python
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
GROUPS = PROJECT["dependency-groups"]


def required() -> Iterator[tuple[str, Requirement]]:
    """Yield each requirement of both distributions, with the table that it stands in."""
    pool = tomllib.loads((ROOT / "pipepool" / "pyproject.toml").read_text())
    tables: dict[str, list[Any]] = {"dependencies": PROJECT["project"]["dependencies"]}
    tables |= EXTRAS | GROUPS | pool["project"]["optional-dependencies"]
    tables |= {"build": PROJECT["build-system"]["requires"] + pool["build-system"]["requires"]}
    for table, lines in tables.items():
        yield from ((table, Requirement(line)) for line in lines if isinstance(line, str))


def pins() -> dict[str, list[tuple[Version, list[str]]]]:
    """Return the versions of each package in the lock, with their hashes."""
    found: dict[str, list[tuple[Version, list[str]]]] = {}
    for line in LOCK.replace("\\\n", " ").splitlines():
        text = line.partition("#")[0].strip()
        if text:
            pin = PIN.fullmatch(text.partition(" --hash")[0].strip())
            assert pin, line[:80]
            found.setdefault(pin["name"], []).append((Version(pin["version"]), HASH.findall(text)))
            assert len(found[pin["name"]]) == 1 or pin["marker"], line[:80]
    return found


def test_every_package_of_the_lock_has_hashes() -> None:
    for name, versions in pins().items():
        for _, hashes in versions:
            assert hashes, name
            assert len(set(hashes)) == len(hashes), name


def test_the_lock_names_no_index_and_no_folder() -> None:
    assert "://" not in LOCK
    assert not re.search(r"^\s*-(?!-hash)", LOCK, re.MULTILINE)


def test_the_lock_has_what_is_required() -> None:
    """If this fails after a change of pyproject.toml: make lock."""
    found = pins()
    for table, each in required():
        name = canonicalize_name(each.name)
        if name == "pipepool":
            continue
        assert name in found, f"{table}: {each}: make lock"
        for version, _ in found[name]:
            assert each.specifier.contains(version, prereleases=True), f"{table}: {each}: make lock"


def test_the_lock_has_nothing_that_is_no_longer_required() -> None:
    roots = {canonicalize_name(each.name) for _, each in required()} - {"pipepool"}
    reached = {line.partition("==")[0].strip() for name in roots for line in places.locked(name)}
    assert pins().keys() == reached


def test_the_toolkit_requires_the_pool_of_this_checkout() -> None:
    """If this fails after a release of pipepool: write its version into pyproject.toml."""
    [pool] = [each for _, each in required() if each.name == "pipepool"]
    assert str(pool.specifier) == f">={pipepool.__version__}"


def test_the_hashes_are_those_of_the_files_for_all_pythons() -> None:
    """A package in C has a wheel for each of 3.11 to 3.14 and several machines, and an sdist."""
    for package in COMPILED:
        [(_, hashes)] = pins()[package]
        assert len(hashes) > 12, package


def test_make_installs_all_extras_and_groups_and_only_by_the_lock() -> None:
    lines = re.findall(r"^\t@?\$\(PACKAGES\) (.+)$", MAKEFILE, re.MULTILINE)
    words = {word for line in lines for word in line.split() if not word.startswith(("-", "$"))}
    assert words | {"docs"} == EXTRAS.keys() | GROUPS.keys()  # dev includes docs
    assert {"include-group": "docs"} in GROUPS["dev"]
    assert "pip install" not in MAKEFILE
