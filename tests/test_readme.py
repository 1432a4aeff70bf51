"""The README and docs/ name only what exists."""

from __future__ import annotations

import re

import pytest

import catalog

PAGES = (catalog.ROOT / "README.rst", *sorted((catalog.ROOT / "docs").glob("*.rst")))
TEXT = "".join(page.read_text() for page in PAGES)
NAMES = {*catalog.servers(), *catalog.tasks(), *catalog.drivers(), *catalog.suites(), "2_group"}
COMMANDS = sorted(set(re.findall(r"fab (?:--help )?([a-z_]+)", TEXT)))
SOURCE = "".join(path.read_text() for path in (catalog.ROOT / "commands").glob("*.py"))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_exists(command: str) -> None:
    assert f"\ndef {command}(" in SOURCE


def test_every_server_and_task_exists() -> None:
    like_a_task = r"``((?:sleep|network|file|xml|sha256|simplehash|checksum|noop)_[a-z_]+)``"
    named = set(re.findall(like_a_task, TEXT)) | set(re.findall(r"\d\. ``(\w+)``", TEXT))
    assert named
    assert named <= NAMES


def test_every_case_shown_can_be_run() -> None:
    for server, task in re.findall(r"run_server:(\w+),?(\w*)[^\w/.]", TEXT):
        catalog.find_server(server)
        assert not task or task in NAMES


@pytest.mark.parametrize("path", sorted(set(re.findall(r"``((?:\w+/)+\w+\.py)``", TEXT))))
def test_every_file_named_is_there(path: str) -> None:
    assert (catalog.ROOT / path).is_file()


def test_every_make_target_exists() -> None:
    makefile = (catalog.ROOT / "Makefile").read_text()
    for target in re.findall(r"make (\w+) ", TEXT):
        assert f"\n{target}:" in makefile
