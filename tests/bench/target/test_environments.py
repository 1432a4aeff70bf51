"""An environment with a version of a package is created once; a failure is one line."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from offload.engine import server
from offload.errors import MachineError, UsageError
from offload.registry import places
from offload.studies.gate import origins
from offload.suites import Case

pytestmark = pytest.mark.server
NAME = "offload_tiny_example"


def wheel(folder: Path, version: str) -> None:
    """Write the smallest wheel: a module that has its version."""
    facts = f"{NAME}-{version}.dist-info"
    files = {
        f"{NAME}.py": f"VERSION = {version!r}\n",
        f"{facts}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n",
        f"{facts}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{facts}/RECORD": "",
    }
    with zipfile.ZipFile(folder / f"{NAME}-{version}-py3-none-any.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is the only package index; servers need nothing of it."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version in ("1.0", "2.0"):
        wheel(folder, version)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_USER", "1")  # which an environment refuses
    monkeypatch.setattr(server, "ALWAYS", ())
    monkeypatch.setattr(places, "cache", lambda: tmp_path / "cache")
    return folder


def imported(python: str) -> str:
    code = f"import {NAME}; print({NAME}.VERSION)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=20)
    return done.stdout.strip()


def create(requirement: str) -> str:
    return origins.create_environment(requirement, (), sys.executable, has_own_work=False)


@pytest.mark.slow
def test_it_has_the_version_and_nothing_of_the_system(index: Path) -> None:
    old, new = create(f"{NAME}==1.0"), create(f"{NAME}==2.0")
    assert (imported(old), imported(new)) == ("1.0", "2.0")
    code = "import tornado"
    assert subprocess.run([old, "-c", code], capture_output=True, timeout=20).returncode == 1
    settings = (Path(old).parents[1] / "pyvenv.cfg").read_text()
    assert "include-system-site-packages = false" in settings


@pytest.mark.slow
def test_it_is_kept_and_an_interrupted_one_is_created_again(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = create(f"{NAME}==1.0")
    assert capsys.readouterr().err.count("\n") == 1
    for path in index.iterdir():
        path.unlink()
    assert create(f"{NAME}==1.0") == python
    assert capsys.readouterr().err == ""
    (Path(python).parents[1] / origins.COMPLETE).unlink()
    with pytest.raises(MachineError):
        create(f"{NAME}==1.0")


@pytest.mark.slow
def test_a_version_that_does_not_exist_is_a_usage_error(index: Path) -> None:
    with pytest.raises(UsageError, match=rf"{NAME}==9 cannot be installed \(.*: name another") as e:
        create(f"{NAME}==9")
    assert "\n" not in str(e.value)
    assert [path for path in (index.parent / "cache").glob("environments/*") if path.is_dir()] == []


@pytest.mark.slow
def test_without_an_index_the_error_reports_what_to_do(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    expected = f"no package index with {NAME} is reachable: connect to one, or name an environment"
    with pytest.raises(MachineError, match=expected) as raised:
        create(f"{NAME}==1.0")
    assert "\n" not in str(raised.value)


def test_other_packages_have_the_versions_that_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    here = origins._installed()
    monkeypatch.setattr(server, "ALWAYS", ("tornado", "requests"))
    wanted = origins._wanted("Tornado==6.4", ("lxml", "starlette"), False)
    assert f"requests=={here['requests']}" in wanted
    assert f"lxml=={here['lxml']}" in wanted
    assert not any(line.startswith("tornado") for line in wanted)
    own = origins._wanted("tornado==6.4", (), True)
    assert {line.partition("==")[0] for line in own} >= {"pytest", "requests"}
    assert not {line.partition("==")[0] for line in own} & origins.OURS


def test_a_case_of_another_python_has_an_environment_of_it(monkeypatch: Any) -> None:
    made: list[tuple[Any, ...]] = []
    monkeypatch.setenv("PYTHONS", f"3.99={sys.executable}")
    monkeypatch.setattr(
        origins,
        "create_environment",
        lambda *given: made.append(given) or f"/venv{len(made)}/bin/python",
    )
    cases = [Case("threads", "noop_sync"), Case("threads", "own:f", python="3.99")]
    found = origins.counterparts(cases, "tornado==6.4")
    assert [case.origin and case.origin.python for case in found] == [
        "/venv1/bin/python",
        "/venv2/bin/python",
    ]
    assert [(given[0], given[3]) for given in made] == [
        ("tornado==6.4", False),
        ("tornado==6.4", True),
    ]


@pytest.mark.slow
def test_an_environment_whose_interpreter_is_gone_is_created_again(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = Path(create(f"{NAME}==1.0"))
    python.unlink()
    python.symlink_to("/nosuch/python")
    capsys.readouterr()
    assert imported(create(f"{NAME}==1.0")) == "1.0"
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
def test_an_interrupted_installation_leaves_nothing(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(argv: list[str]) -> str | None:
        if "install" in argv:
            raise KeyboardInterrupt
        return run(argv)

    run = origins._run
    monkeypatch.setattr(origins, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        create(f"{NAME}==1.0")
    assert [path for path in (index.parent / "cache").glob("environments/*") if path.is_dir()] == []
    monkeypatch.setattr(origins, "_run", run)
    assert imported(create(f"{NAME}==1.0")) == "1.0"


@pytest.mark.parametrize("requirement", ["offload==0.1", "PipePool==0.1", "pip==23.0"])
def test_a_version_of_this_toolkit_is_a_checkout(requirement: str) -> None:
    with pytest.raises(UsageError, match="name another checkout of this toolkit: against=path"):
        create(requirement)


def test_a_package_of_no_index_is_not_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, url in (("from_git", '{"url": "https://x/y.git", "vcs_info": {}}'), ("plain", None)):
        facts = tmp_path / f"{name}-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        if url is not None:
            (facts / "direct_url.json").write_text(url)
    monkeypatch.syspath_prepend(tmp_path)
    found = origins._installed()
    assert ("plain" in found, "from-git" in found) == (True, False)
