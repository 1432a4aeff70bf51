"""Packages of servers in another Python, and the rows of a missing Python."""

from __future__ import annotations

import hashlib
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from offload.engine import server
from offload.engine.server import (
    ALWAYS,
    _install,
    _our_pip,
    _pip_version,
    environment_for,
    environment_with_packages,
    find_interpreter,
)
from offload.errors import MachineError, UsageError
from offload.registry import catalog, places
from offload.suites import Case
from tests.rounds import measure_window
from tests.small_wheels import write_wheel

pytestmark = pytest.mark.usefixtures("no_other_python")


@pytest.mark.parametrize("name", catalog.servers())
def test_what_a_server_needs_can_be_installed_for_another_python(name: str) -> None:
    needs = catalog.find_server(name).needs
    assert len(places.lines_for(needs)) == len({places.PROVIDED_BY.get(n, n) for n in needs})


@pytest.mark.parametrize(
    ("name", "task", "expected"),
    [
        ("threads", "noop_sync", ()),
        ("uvicorn_h11", "own:f", ("uvicorn", "yaml")),
        ("threads", "own:f", ("yaml",)),
    ],
)
def test_packages_of_the_task_are_installed_with_the_servers(
    name: str, task: str, expected: tuple[str, ...], tmp_path: Path, monkeypatch: Any
) -> None:
    needed: list[tuple[str, ...]] = []
    (tmp_path / "own.py").write_text("PACKAGES = 'yaml'\ndef f(): pass")
    monkeypatch.setattr(
        server,
        "environment_with_packages",
        lambda _python, needs, _work: needed.append(needs) or {},
    )
    environment_for(Case(name, task, path=str(tmp_path)), "other")
    assert set(expected) <= set(needed[0])


def test_a_python_too_old_for_the_servers_is_reported() -> None:
    with pytest.raises(UsageError, match=r"python=3\.10: servers run in 3\.11 or newer"):
        find_interpreter("3.10")


def test_a_missing_python_is_reported_in_its_row() -> None:
    case = Case("threads", "noop_sync", python="3.99")
    record = measure_window(case)
    assert record.is_unavailable
    assert "no Python at '3.99'" in str(record.problem)


def test_an_environment_without_pip_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: str) -> str:
        raise PackageNotFoundError("pip")

    monkeypatch.setattr(server, "version", none)
    with pytest.raises(MachineError, match=r"this environment has no pip: .* -m ensurepip adds it"):
        _our_pip()
    monkeypatch.setattr(server, "version", lambda _: "25.0b1")
    assert _pip_version() == (25, 0)


def test_a_failed_installation_is_retried_by_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = {"up": False}
    attempts: list[str] = []

    def succeeds(words: list[str], seconds: float) -> bool:
        if "install" not in words:
            return False
        attempts.append(Path(words[-1]).name)
        return network["up"] or attempts[-1] == "tornado.txt"

    monkeypatch.setattr(server, "_succeeds", succeeds)
    monkeypatch.setattr(server, "_our_pip", lambda: ["pip"])
    monkeypatch.setattr(server, "_packages_folder", lambda *_: tmp_path)
    monkeypatch.setattr(server, "_failed", {})
    every = len(ALWAYS)
    environment_with_packages("other")
    environment_with_packages("other")
    assert len(attempts) == every  # once in one command
    network["up"] = True
    monkeypatch.setattr(server, "_failed", {})  # as in another process
    environment_with_packages("other")
    assert len(attempts) == every + every - 1  # all but tornado, which is installed
    environment_with_packages("other")
    assert len(attempts) == every + every - 1


@pytest.mark.server
@pytest.mark.parametrize("is_right", [True, False])
def test_a_package_with_another_hash_is_not_installed(
    is_right: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For another interpreter, by pip, from an index with one package and what it requires."""
    wheels = [write_wheel(tmp_path, "tenacity", "idna>=1"), write_wheel(tmp_path, "idna")]
    digests = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels]
    digests[1] = digests[1] if is_right else "0" * 64
    lock = tmp_path / "requirements.lock"
    lines = [
        f"idna==1.0 \\\n    --hash=sha256:{digests[1]}\n    # via tenacity",
        f"tenacity==1.0 \\\n    --hash=sha256:{digests[0]}\n    # via offload (pyproject.toml)",
    ]
    lock.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(places, "LOCK", lock)
    places._lock.cache_clear()
    monkeypatch.setattr(server, "ALWAYS", ("tenacity",))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_USER", "1")  # which an environment refuses
    folder = tmp_path / "packages"
    try:
        installed = _install(sys.executable, folder, places.pins(["tenacity"]))
    except MachineError as error:
        assert not is_right
        assert str(error).startswith("tenacity==1.0 cannot be installed for ")
        assert not (folder / "tenacity.py").exists()
    else:
        assert is_right
        assert installed == ["tenacity==1.0"]
        assert (folder / "tenacity.py").exists()
        assert (folder / "idna.py").exists()
    finally:
        places._lock.cache_clear()


def test_a_requirement_has_the_lines_of_all_that_it_requires() -> None:
    [*names] = [line.partition("==")[0] for line in places.locked("requests>=2")]
    assert names == ["certifi", "charset-normalizer", "idna", "requests", "urllib3"]
    assert places.pins(["strawberry"])[0].startswith("strawberry-graphql==")
    assert places.pins(["blacksheep"]) == []
    for name in ("requests", "aiohttp"):
        assert all(" --hash=sha256:" in line for line in places.locked(name))


def test_an_application_has_its_own_packages_and_needs_those_of_its_server_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported: list[str] = []

    def succeeds(words: list[str], seconds: float) -> bool:
        imported.append(words[-1])
        return True

    monkeypatch.setattr(server, "_succeeds", succeeds)
    assert environment_with_packages("other", (), "app=shop:app") == places.import_path("other")
    environment_with_packages("other", ("gunicorn",), "app=shop:app")
    environment_with_packages("other", ("gunicorn",), "noop_sync")
    assert imported == ["import gunicorn", "import tornado, gunicorn"]
