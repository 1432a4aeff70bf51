"""The task, server, driver, suite and study in docs/how_to/ work unchanged."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from offload.engine import journal
from tests import ROOT
from tests.commands import FAB, fab, free_port, served
from tests.http_clients import get
from tests.waiting import read_line, wait_until

pytestmark = pytest.mark.server
KINDS = ("task", "server", "driver", "suite", "study")
PAGES = [ROOT / "docs" / "how_to" / f"{name}.rst" for name in KINDS]
TEXT = "".join(page.read_text() for page in PAGES)
EXAMPLE = re.compile(
    r"``(\S+\.py)``;[^\n]*(?:\n[^\n]+)*\n\n\.\. code-block:: python\n\n((?: {4}.*\n|\n)+)",
    re.MULTILINE,
)
EXAMPLES = {path: textwrap.dedent(code) for path, code in EXAMPLE.findall(TEXT)}


@pytest.fixture
def project(a_copy: Path) -> Path:
    """Copy the project and add all examples."""
    for path, code in EXAMPLES.items():
        assert not (a_copy / path).exists()
        (a_copy / path).write_text(code)
    return a_copy


def test_the_server_serves_and_ends_without_output(project: Path) -> None:
    words = [sys.executable, "-P", "-m", "offload.servers", "shortest", "noop_sync", "0"]
    running = subprocess.Popen(words, cwd=project, stderr=subprocess.PIPE, text=True)
    try:
        url = re.search(r"http://127\.0\.0\.1:\d+/", read_line(running.stderr))
        assert url is not None
        assert get(url[0]) == (200, b"ok")
        running.terminate()
        assert running.communicate(timeout=20)[1] == ""
        assert running.returncode == 0
    finally:
        running.kill()


def test_all_are_listed(project: Path) -> None:
    listed = fab("list", cwd=project).stdout
    names = ["total_sync", "shortest", "short_ab", "short"]
    assert [name for name in names if f" {name} " not in listed] == []
    assert len(EXAMPLES) == len(KINDS)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_study_is_run_resumed_and_reported_in_each_form(project: Path) -> None:
    assert "--pythons" in fab("--help", "faster_python", cwd=project).stdout
    records = f"*-faster_python/{journal.FILE}"
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    words = f"faster_python:plain_sync/noop_sync,pythons={here}+{here},users=2"
    started = subprocess.Popen([FAB, words], cwd=project, stderr=subprocess.PIPE, text=True)
    try:
        assert wait_until(lambda: [*journal.RESULTS.glob(records)], 60.0)
        started.send_signal(signal.SIGINT)
        assert "continue with offload resume" in started.communicate(timeout=20)[1]
    finally:
        started.kill()
    ended = fab("resume:format=json", cwd=project, timeout=150)
    assert ended.returncode in (0, 7), ended.stderr
    found = json.loads(ended.stdout)
    assert found["pairs"] > 2
    told = fab("report:format=json", cwd=project)
    assert json.loads(told.stdout)["answer"]["ratio"] == found["ratio"]
    assert fab("report", cwd=project).stdout.startswith(found["verdict"])
    [page] = journal.RESULTS.glob("*-faster_python/report.html")
    assert found["verdict"] in page.read_text()


@pytest.mark.skipif(shutil.which("ab") is None, reason="ab is not installed: make test-all")
def test_the_driver_measures_the_task(project: Path) -> None:
    port = free_port()
    with served(f"run_server:3,total_sync,port={port}", cwd=project):
        assert get(f"http://127.0.0.1:{port}/") == (200, b"499999500000")
        words = f"run_load_test:driver=short_ab,time=1,users=2,port={port},format=json"
        measured = fab(words, cwd=project)
    assert measured.returncode == 0, measured.stderr
    [row] = json.loads(measured.stdout)
    assert "short_ab" in json.dumps(row)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_suite_runs(project: Path) -> None:
    ran = fab("run_suite:short,quick=yes,driver=builtin", cwd=project, timeout=150)
    assert ran.returncode == 0, ran.stderr
    assert "threads" in ran.stdout
