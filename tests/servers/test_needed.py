"""A server of a suite: runs when its packages are there, and names them in one line when not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import catalog
import requirements
from tests.asking import get
from tests.installed import param

NEEDY = [name for name, entry in catalog.servers().items() if entry.needs]


@pytest.mark.parametrize("name", [param(name) for name in NEEDY])
def test_a_server_with_packages_of_its_own_serves_a_task(name: str, start: Any) -> None:
    running = start(name, "noop_sync")
    assert get(running.url) == (200, b"ok")


@pytest.mark.parametrize("name", NEEDY)
def test_a_missing_package_is_one_line_with_the_command(name: str, tmp_path: Path) -> None:
    needs = list(catalog.find_server(name).needs)
    hide = (
        "import importlib.util as u, sys; real = u.find_spec\n"
        f"u.find_spec = lambda name, *more: None if name in {needs} else real(name, *more)\n"
        f"from servers.__main__ import main; sys.exit(main(['{name}', 'noop_sync', '0']))"
    )
    said = subprocess.run(
        [sys.executable, "-c", hide], cwd=catalog.ROOT, capture_output=True, text=True, timeout=20
    )
    assert (said.returncode, said.stderr) == (
        3,
        f"error: {name} needs {' and '.join(needs)}: make suites\n",
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("import blacksheep", "needs blacksheep, which cannot be imported (No module named '"),
        ("from servers import _no", "needs servers, which cannot be imported (cannot import name "),
    ],
)
def test_what_serve_cannot_import_is_one_line(line: str, told: str, a_copy: Path) -> None:
    serve = f'def serve(task: str, port: int) -> None:\n    """Serve."""\n    {line}\n'
    (a_copy / "servers" / "sheep.py").write_text(serve)
    words = [sys.executable, "-m", "servers", "sheep", "noop_sync", "0"]
    said = subprocess.run(words, cwd=a_copy, capture_output=True, text=True, timeout=20)
    assert (said.returncode, said.stderr.count("\n")) == (3, 1), said.stderr
    assert f"error: sheep {told}" in said.stderr


def test_make_suites_is_the_remedy_for_what_it_installs_alone() -> None:
    assert requirements.remedy(["fastapi", "h11", "uvloop"]) == "make suites"
    assert requirements.remedy(["blacksheep"]) == f"{sys.executable} -m pip install blacksheep"
