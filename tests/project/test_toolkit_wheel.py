"""The wheel of the toolkit is complete, and its command works in any folder."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from offload.registry.places import PACKAGE
from tests import ROOT
from tests.commands import free_port
from tests.http_clients import get
from tests.project import wheels
from tests.project.test_wheel import environment, pip
from tests.waiting import read_line

pytestmark = pytest.mark.server
SHOP = {
    "shop.py": """
import queue, tasks
from errors import ShopError
from values import PRICE
def quote():
    return f"{PRICE} {queue.WAITING} {tasks.NAME} {open('size.txt').read()} {ShopError.__name__}"
""",
    "errors.py": "class ShopError(Exception): pass",
    "tasks.py": "NAME = 'own tasks'",
    "tasks/inner.py": "",
    "values.py": "PRICE = 7",
    "queue.py": "WAITING = 3",
    "size.txt": "large",
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return wheels.build(tmp_path_factory)


def test_the_wheel_holds_the_package_with_servers_tasks_and_data(both: dict[str, Path]) -> None:
    package = ROOT / "src" / "offload"
    listed = zipfile.ZipFile(both["offload"]).namelist()
    names = {name for name in listed if name.startswith("offload/")}
    parts = [package, *(ROOT / name for name in ("servers", "tasks"))]
    sources = {
        f"offload/{path.relative_to(package if part is package else ROOT)}"
        for part in parts
        for path in part.rglob("*.py")
    }
    data = {"py.typed", "pyproject.toml", "requirements.lock"}
    data |= {f"documents/page/page.{kind}" for kind in ("html", "css", "js")}
    data |= {f"documents/page/live.{kind}" for kind in ("html", "css", "js")}
    data |= {
        "py.typed",
        *(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.schema.json")),
    }
    data |= {"upstream/www/feed.xml", "upstream/www/page.html"}
    assert names == sources | {f"offload/{name}" for name in data}
    assert all(".dist-info/" in name for name in {*listed} - names)  # and none of lab/


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory, both: dict[str, Path]) -> str:
    """Install both wheels, with what they need, into an environment of their own."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=100)
    constraints = (
        folder / "constraints.txt"
    )  # with hashes, pip would demand those of our wheels, too
    lock = (ROOT / "requirements.lock").read_text()
    constraints.write_text("\n".join(re.findall(r"^[\w-]+==[^\\\n]+", lock, re.MULTILINE)))
    pip(folder / "bin" / "python", *map(str, both.values()), "-c", str(constraints))
    return str(folder / "bin" / "offload")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("server", ["1", "2", "3", "4", "prefork", "pipes"])
def test_it_serves_a_users_own_function_in_the_users_folder(
    command: str, server: str, tmp_path: Path
) -> None:
    for name, text in SHOP.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    port = free_port()
    running = subprocess.Popen(
        [command, f"run_server:{server},shop:quote,port={port}"],
        cwd=tmp_path,
        env={key: value for key, value in environment().items() if key != "RESULTS"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert "serves" in read_line(running.stderr)
        assert get(f"http://127.0.0.1:{port}/") == (200, b"7 3 own tasks large ShopError")
        assert (tmp_path / "results" / ".servers" / f"{port}.json").is_file()
    finally:
        running.terminate()
        running.communicate(timeout=20)
    assert running.returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_requirements_txt_installs_what_fab_needs_into_an_empty_environment(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True, timeout=100
    )
    own = [sys.executable, "-m", "pip", "--python", str(tmp_path / "bin" / "python")]
    required = ["install", "-q", "--disable-pip-version-check", "-r", "requirements.txt"]
    subprocess.run([*own, *required], check=True, timeout=300, cwd=ROOT, env=environment())
    fab, port = str(tmp_path / "bin" / "fab"), free_port()
    running = subprocess.Popen(
        [fab, f"run_server:3,network_sync,port={port}"],
        cwd=ROOT,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert "serves network_sync" in read_line(running.stderr)
        load = [fab, f"run_load_test:url=http://127.0.0.1:{port}/,time=1,users=2,driver=builtin"]
        done = subprocess.run(
            load, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert '"completed"' in done.stdout
    finally:
        running.terminate()
        running.communicate(timeout=20)
