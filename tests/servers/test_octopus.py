"""The octopus database is always the same, and its servers return the same responses."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from offload.engine.workload import get
from offload.registry import catalog
from offload.serving.frameworks.octopus import database
from offload.suites import Request
from tests import ROOT
from tests.commands import fab, fab_here
from tests.servers.lifecycle.command_line import begin, wait_for_end

pytestmark = pytest.mark.server
SERVERS = [name for name in catalog.servers() if name.startswith("django_")]
every = pytest.mark.parametrize("name", SERVERS)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a path for a database of this test."""
    path = tmp_path / "own.sqlite3"
    monkeypatch.setenv("OCTOPUS_DB", str(path))
    return path


def built(rows: int) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-P", "-m", "offload.serving.frameworks.octopus", str(rows)]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60)


def octopuses(url: str, arguments: str) -> list[dict[str, Any]]:
    query = f"{{ octopuses({arguments}) {{ id name octopusType {{ id name }} weight }} }}"
    request = Request("/graphql/", "POST", json.dumps({"query": query}))
    body = get(urljoin(url, request.path), request)
    found: list[dict[str, Any]] = json.loads(body)["data"]["octopuses"]
    return found


def test_it_is_built_the_same_each_time_and_not_without_need(own: Path) -> None:
    first = built(2000)
    assert (first.returncode, first.stderr) == (0, "")
    assert "2000 octopuses in " in first.stdout
    again = built(2000).stdout
    assert "is complete" in again
    own.unlink()
    assert built(2000).stdout.split("sha256")[1] == first.stdout.split("sha256")[1]


def test_the_command_builds_it_and_what_it_built_is_complete(own: Path) -> None:
    done = fab("build_octopus_db:rows=1500")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{own}: 1500 octopuses in ")
    assert database.is_complete(1500)
    with contextlib.closing(sqlite3.connect(own)) as db, db:
        counts = [db.execute(f"SELECT count(*) FROM {t}").fetchone() for t in database.MANY]
        weights = db.execute("SELECT count(DISTINCT weight) FROM octopus").fetchone()[0]
    assert counts == [(1500,)] * len(database.MANY)
    assert weights > 1000
    again = fab("build_octopus_db:rows=1500")
    assert again.stdout == f"{own} is complete with 1500 octopuses\n"


@pytest.mark.parametrize("rows", ["999", "10000001", "many"])
def test_rows_out_of_bounds_are_a_usage_error(own: Path, rows: str) -> None:
    done = fab_here(f"build_octopus_db:rows={rows}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"rows={rows!r}" in done.stderr
    assert not own.exists()


def test_rows_that_were_changed_are_seen(own: Path) -> None:
    database.build(1000)
    assert database.is_complete(1000)
    assert not database.is_complete(2000)
    with contextlib.closing(sqlite3.connect(own)) as db, db:
        db.execute("UPDATE octopus SET weight = 1 WHERE id = 500")
    assert not database.is_complete(1000)


def test_a_folder_that_cannot_be_written_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTOPUS_DB", "/proc/no/octopus.sqlite3")
    done = built(1000)
    assert (done.returncode, done.stderr.count("\n")) == (6, 1)


@every
def test_without_it_a_server_reports_how_to_build_it(name: str, own: Path) -> None:
    line = f"error: no octopus database at {own}: offload build_octopus_db"
    assert wait_for_end(begin(name, "noop_sync", "0")) == (3, [line])


@every
def test_octopuses_are_those_of_the_database(name: str, start: Any) -> None:
    with contextlib.closing(sqlite3.connect(os.environ["OCTOPUS_DB"])) as db:
        words = "o.id, o.name, t.id, t.name, weight FROM octopus o JOIN octopus_type t"
        rows = db.execute(f"SELECT {words} ON t.id = octopus_type_id ORDER BY o.id LIMIT 20")
        expected = [
            {"id": str(a), "name": b, "octopusType": {"id": str(c), "name": d}, "weight": e}
            for a, b, c, d, e in rows
        ]
    assert octopuses(start(name, "noop_sync").url, "first: 20") == expected


@pytest.mark.parametrize("name", ["django_graphene_gunicorn"])
def test_octopuses_that_ask_for_their_types_are_the_same(name: str, start: Any) -> None:
    url = start(name, "noop_sync").url
    joined, alone = (octopuses(url, f"first: 20, joined: {word}") for word in ("true", "false"))
    assert joined == alone
