"""In a free-threaded Python the import that switches the GIL on is named, in whichever process."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from offload.causes.figures import signs
from offload.engine.server import find_interpreters
from offload.suites import Case
from tests.applications import extension
from tests.rounds import measure_window

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(300)]
APPLICATION = """
import needs_gil

def wsgi(environ, start_response):
    start_response("200 OK", [])
    return [b"quote"]
"""


@pytest.fixture(scope="module")
def python() -> str:
    """Find a free-threaded Python with its headers and a compiler."""
    found = [each.path for each in find_interpreters() if not each.gil_enabled]
    if not found or shutil.which("cc") is None:
        pytest.skip("no free-threaded Python or no compiler: make test-all PYTHON=python3.13t")
    return found[0]


@pytest.fixture
def folder(tmp_path: Path, python: str) -> Path:
    """Build an application whose import of an extension switches the GIL on."""
    (tmp_path / "shop.py").write_text(APPLICATION)
    extension.build(python, tmp_path)
    return tmp_path


def test_the_import_in_a_worker_is_a_sign(python: str, folder: Path) -> None:
    case = Case("gunicorn_gthread", "app=shop:wsgi", 4, python=python, path=str(folder))
    record = measure_window(case)
    assert record.problem is None, record.problem
    assert record.server.interpreter["gil_enabled"] is True
    found = signs(record)
    assert found is not None and found.gil_enabled_by == "needs_gil"


def test_granian_names_the_import_that_it_refuses(python: str, folder: Path) -> None:
    case = Case("granian_wsgi", "app=shop:wsgi", 4, python=python, path=str(folder))
    record = measure_window(case)
    assert record.problem is not None
    assert record.problem.message == (
        "the import of needs_gil switched the GIL on, which granian's free-threaded build refuses"
    )


def test_granian_names_the_gil_that_was_on_from_the_start(python: str) -> None:
    record = measure_window(Case("granian_wsgi", "noop_sync", 4, python=f"{python}-gil"))
    assert record.problem is not None
    assert record.problem.message == (
        "this Python was started with its GIL on, which granian's free-threaded build refuses"
    )
