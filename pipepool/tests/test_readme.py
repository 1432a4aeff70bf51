"""The examples of README and docstrings run unchanged, and the package needs no other package."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import os
import shutil
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import pipepool
from pool_tests.helpers import PATHS, free_port

pytestmark = pytest.mark.server

README = Path(__file__).resolve().parents[1] / "README.rst"
LIMIT = 20.0


def example(word: str) -> str:
    """Return the code block of the README that contains a word."""
    blocks = README.read_text().split(".. code-block:: python\n")[1:]
    return next(code for code in map(code_of, blocks) if word in code)


def code_of(block: str) -> str:
    """Return the code of a block, without the text after it."""
    lines = block.splitlines()
    end = next(i for i, line in enumerate(lines) if line and not line.startswith(" "))
    return textwrap.dedent("\n".join(lines[:end]))


@pytest.fixture
def alone(tmp_path: Path) -> dict[str, str]:
    """Copy the package to an empty folder; return an environment that imports it from there."""
    shutil.copytree(Path(pipepool.__file__).parent, tmp_path / "pipepool")
    return {**os.environ, "PYTHONPATH": ":".join([str(tmp_path), *PATHS[2:]])}


def test_the_first_example_runs_with_the_package_alone(
    alone: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "first.py").write_text(example("square"))
    command = [sys.executable, str(tmp_path / "first.py")]
    done = subprocess.run(command, capture_output=True, timeout=LIMIT, env=alone, cwd=tmp_path)
    assert (done.stdout, done.stderr) == (b"144\n", b"")


@pytest.mark.parametrize("name", ["pool", "executor"])
def test_the_example_in_a_docstring_is_true(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"pipepool.{name}"))
    assert (result.attempted > 0, result.failed) == (True, 0)


def test_the_tornado_example_answers_requests(alone: dict[str, str], tmp_path: Path) -> None:
    port = free_port()
    code = example("RequestHandler").replace("asyncio.run(main())", f"asyncio.run(main({port}))")
    (tmp_path / "hello.py").write_text(code)
    command = [sys.executable, str(tmp_path / "hello.py")]
    with subprocess.Popen(command, env=alone, cwd=tmp_path) as running:
        try:
            assert fetch(f"http://127.0.0.1:{port}/?name=Ada") == b"Hello, Ada\n"
        finally:
            running.kill()
            running.wait(LIMIT)


def fetch(url: str) -> bytes:
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        with (
            contextlib.suppress(urllib.error.URLError),
            urllib.request.urlopen(url, timeout=5) as answer,
        ):
            return bytes(answer.read())
        time.sleep(0.05)
    raise AssertionError(f"no response from {url} within {LIMIT:g} s")


SHOP = """
def quote(number): return f"{number} for 5"
"""


def test_the_fastapi_example_answers_requests(alone: dict[str, str], tmp_path: Path) -> None:
    for needed in ("fastapi", "uvicorn"):
        pytest.importorskip(needed, reason=f"{needed} is not installed: make test-all")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "pricing.py").write_text(SHOP)
    (tmp_path / "quotes.py").write_text(example("FastAPI"))
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "quotes:app", f"--port={port}"]
    with subprocess.Popen(command, env=alone, cwd=tmp_path) as running:
        try:
            assert fetch(f"http://127.0.0.1:{port}/quote/7") == b'"7 for 5"'
        finally:
            running.kill()
            running.wait(LIMIT)


CALL_VIEWS = """
import asyncio, django
from django.conf import settings
settings.configure()
django.setup()
from django.test import RequestFactory
import views
request = RequestFactory().get("/")
async def both():
    return [(await views.price(request, n)).content for n in (1, 2)]
if __name__ == "__main__":
    print(asyncio.run(both()), views.priced(request, 3).content)
"""


def test_the_django_views_return_responses(alone: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("django", reason="django is not installed: make test-all")
    views = example("async def price") + "\n" + example("def priced")
    for name, code in {"shop/pricing": SHOP, "views": views, "call_views": CALL_VIEWS}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_text(code)
    command = [sys.executable, "call_views.py"]
    done = subprocess.run(command, capture_output=True, timeout=LIMIT, env=alone, cwd=tmp_path)
    assert (done.stdout, done.stderr) == (b"[b'1 for 5', b'2 for 5'] b'3 for 5'\n", b"")
