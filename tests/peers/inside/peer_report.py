"""A pytest plugin: write the tests that were collected, and the outcome of those that ran."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

REPORT = Path(os.environ["PEER_REPORT"])


def _write(**words: str) -> None:
    with REPORT.open("a") as file:
        file.write(json.dumps(words) + "\n")


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.getoption("collectonly"):
        for item in session.items:
            _write(listed=_name(item.nodeid))


def pytest_runtest_logreport(report: Any) -> None:
    _write(test=_name(report.nodeid), when=report.when, outcome=report.outcome)


def _name(node: str) -> str:
    path, _, test = node.partition("::")
    return f"{Path(path).name}::{test}"
