"""`pythons=` and `python=`: rows for each installed interpreter, a message for each missing one."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from offload.engine import journal
from tests import ROOT
from tests.commands import FAB, fab, fab_here, free_port, served
from tests.http_clients import get
from tests.suites.test_mistakes import GOOD
from tests.waiting import read_line

pytestmark = pytest.mark.server
LEFT_OUT = "left out: no Python at 'nosuch': offload pythons shows how to install it"


@pytest.fixture(autouse=True)
def noting_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have two names for this Python; `own` writes its arguments to the returned file."""
    note, own = tmp_path / "arguments", tmp_path / "own"
    own.write_text(f'#!/bin/sh\necho "$@" >> {note}\nexec "{sys.executable}" "$@"\n')
    own.chmod(0o755)
    monkeypatch.setenv("PYTHONS", f"own={own}+other={sys.executable}")
    return note


@pytest.fixture
def project(a_copy: Path) -> Path:
    (a_copy / "src" / "offload" / "suites" / "mine.py").write_text(GOOD)
    return a_copy


def test_a_server_runs_in_the_python_named(noting_python: Path) -> None:
    port = free_port()
    with served(f"run_server:3,noop_sync,python=own,port={port}"):
        assert get(f"http://127.0.0.1:{port}/")[0] == 200
    assert re.search(r"\bthreads noop_sync\b", noting_python.read_text())


def test_every_row_is_run_in_every_python_that_is_here() -> None:
    words = "run_suite:tornado,rows=published,quick=yes,driver=builtin,pythons=own+nosuch+other"
    run = subprocess.Popen([FAB, words], cwd=ROOT, stdout=-3, stderr=-1)
    try:
        assert read_line(run.stderr).startswith(LEFT_OUT)
        assert read_line(run.stderr).startswith("28 rows: rounds of short loads by builtin")
    finally:
        run.send_signal(signal.SIGINT)
        _, rest = run.communicate(timeout=20)
    assert run.returncode == 130, rest


def test_no_python_that_is_here_is_one_line() -> None:
    said = fab_here("run_suite:tornado,rows=published,quick=yes,pythons=nosuch+other_one")
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1)
    assert "no Python at 'nosuch'" in said.stderr
    assert list(journal.RESULTS.glob("*/*")) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_rows_of_a_python_have_its_figures(project: Path, noting_python: Path) -> None:
    words = "run_suite:mine,quick=yes,driver=builtin,target=50,pythons=own+nosuch,format=json"
    said = fab(words, cwd=project, timeout=580)
    assert said.returncode == 0, said.stderr
    assert said.stderr.startswith(LEFT_OUT)
    rows = json.loads(said.stdout)["rows"]
    commands = [f"run_server:{server},noop_sync,python=own" for server in (2, 3)]
    assert [row["command"] for row in rows] == commands
    assert all(row["rate"] > 0 and row["rounds"] >= 3 for row in rows)
    assert (
        noting_python.read_text().count(" noop_sync ") >= 2 * 4
    )  # a long run and three rounds each
    records = journal.read(journal.newest())
    assert {record.server.interpreter["python"] for record in records} == {sys.version.split()[0]}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_case_is_measured_in_the_python_behind_its_at() -> None:
    said = fab("measure:3@own/noop_sync,users=2,quick=yes,target=50,format=json", timeout=280)
    [row] = json.loads(said.stdout)
    assert (said.returncode, row["rate"] > 0) == (0, True)
    assert row["command"] == "run_server:3,noop_sync,python=own"
