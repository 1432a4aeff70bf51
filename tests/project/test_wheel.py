"""The wheel of pipepool is small and complete, and passes its tests in an empty environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests import ROOT, installed
from tests.project import wheels

SOURCE = ROOT / "pipepool"
LARGEST = 100_000  # bytes

pytestmark = pytest.mark.server

EXAMPLE = """
import asyncio, operator, sys
import pipepool
async def main():
    async with pipepool.PipePool(2) as pool:
        print(await pool.run(operator.add, 1, 2), *[x async for x in pool.map(abs, [-1, -2])])
if __name__ == "__main__":
    asyncio.run(main())
    with pipepool.PipeExecutor(1) as executor:
        print(executor.submit(pow, 2, 3).result(20))
    print(pipepool.__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.build(tmp_path_factory)["pipepool"]


@pytest.fixture(
    scope="module",
    params=["this Python", pytest.param("the newest", marks=pytest.mark.slow)],
)
def empty(
    tmp_path_factory: pytest.TempPathFactory, wheel: Path, request: pytest.FixtureRequest
) -> Path:
    """Install the wheel into an environment of its own; return that environment's Python."""
    python = sys.executable
    if request.param == "the newest":
        other = installed.newest_other_python()
        if other is None:
            pytest.skip("there is no other Python: see offload pythons")
        python = other.path
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True, timeout=100)
    inside = folder / "bin" / "python"
    pip(inside, "--no-deps", "--no-index", str(wheel))
    return inside


def pip(python: Path, *words: str) -> None:
    ours = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    command = [*ours, "install", "-q", *words]
    subprocess.run(command, check=True, timeout=200, env=environment())


def environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def test_the_wheel_is_small_and_contains_only_the_package(wheel: Path) -> None:
    assert wheel.stat().st_size < LARGEST
    names = zipfile.ZipFile(wheel).namelist()
    package = {name for name in names if name.startswith("pipepool/")}
    folder = SOURCE / "src" / "pipepool"
    sources = {f"pipepool/{path.relative_to(folder)}" for path in folder.rglob("*.py")}
    assert package == sources | {"pipepool/py.typed"}
    assert all(".dist-info/" in name for name in {*names} - package)


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_the_wheel_runs_in_an_empty_environment(empty: Path, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(EXAMPLE)
    command = [str(empty), "-W", "error", "example.py"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, cwd=tmp_path, env=environment()
    )
    assert done.stderr == ""
    first, second, place = done.stdout.splitlines()
    assert (first, second) == ("3 1 2", "8")
    assert Path(place).is_relative_to(empty.parents[1])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_wheel_passes_its_own_tests(empty: Path, tmp_path: Path) -> None:
    pip(empty, "pytest", "pytest-timeout", "hypothesis", "psutil", "uvloop", "tornado")
    shutil.copytree(SOURCE / "tests", tmp_path / "tests")
    for name in ("pyproject.toml", "README.rst"):
        shutil.copy(SOURCE / name, tmp_path)
    command = [str(empty), "-m", "pytest", "tests", "-p", "no:cacheprovider"]
    command += ["-m", "not timing"]  # they run alone, in the second part of make test
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, cwd=tmp_path, env=environment()
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout
