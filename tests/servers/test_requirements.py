"""A server of a suite runs if its packages are installed, and otherwise lists them in one line."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from offload.errors import MachineError
from offload.registry import catalog, places
from offload.serving import main
from offload.serving.metrics import probe
from tests import ROOT
from tests.http_clients import get

NEEDY = [name for name, entry in catalog.servers().items() if entry.needs]


@pytest.mark.server
@pytest.mark.parametrize("name", NEEDY)
def test_a_server_with_packages_of_its_own_serves_a_task(name: str, start: Any) -> None:
    running = start(name, "noop_sync")
    assert get(running.url) == (200, b"ok")


@pytest.mark.parametrize("name", NEEDY)
def test_a_missing_package_is_named_with_the_command(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, find = catalog.find_server(name), importlib.util.find_spec
    monkeypatch.setattr(probe, "facts", {})
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda word: None if word in server.needs else find(word)
    )
    with pytest.raises(MachineError) as missing:
        main._serve(server, "noop_sync", 0)
    assert str(missing.value) == f"{name} needs {' and '.join(server.needs)}: make suites"


@pytest.mark.server
def test_a_missing_package_is_one_line_of_a_server() -> None:
    hide = (
        "import importlib.util as u, sys; real = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'pebble' else real(name, *more)\n"
        "from offload.serving.main import main; sys.exit(main(['pebble', 'noop_sync', '0']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", hide], cwd=ROOT, capture_output=True, text=True, timeout=20
    )
    line = "error: pebble needs pebble: make suites\n"
    assert (done.returncode, done.stderr) == (3, line)


@pytest.mark.server
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("import blacksheep", "needs blacksheep, which cannot be imported (No module named '"),
        (
            "from offload.servers import _no",
            "needs offload.servers, which cannot be imported (cannot import name ",
        ),
    ],
)
def test_what_serve_cannot_import_is_one_line(line: str, message: str, a_copy: Path) -> None:
    serve = f'def serve(task: str, port: int) -> None:\n    """Serve."""\n    {line}\n'
    (a_copy / "servers" / "sheep.py").write_text(serve)
    words = [sys.executable, "-P", "-m", "offload.servers", "sheep", "noop_sync", "0"]
    done = subprocess.run(words, cwd=a_copy, capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
    assert f"error: sheep {message}" in done.stderr


def test_make_suites_is_the_remedy_for_what_it_installs_alone() -> None:
    assert places.install_command(["fastapi", "h11", "uvloop"]) == "make suites"
    assert places.install_command(["tornado"]) == "make setup"
    assert places.install_command(["blacksheep"]) == f"{sys.executable} -m pip install blacksheep"
