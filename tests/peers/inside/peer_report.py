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
            _write(listed=f"{item.path.name}::{item.nodeid.partition('::')[2]}")


def pytest_runtest_logreport(report: Any) -> None:
    _write(when=report.when, outcome=report.outcome)
