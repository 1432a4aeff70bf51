"""The other side of a gate is started from the given checkout or environment."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from offload.engine import server
from offload.engine.server import PYTHON_NAME
from offload.errors import StartError, UsageError
from offload.registry import catalog
from offload.studies.gate import origins
from offload.suites import Case, Origin, _case
from tests import ROOT
from tests.http_clients import get
from tests.rounds import measure_cases

NOOP = Case("threads", "noop_sync")
SHOP = "def quote(): return '{side}'\n"
APP = """
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({{"type": "http.response.start", "status": 200, "headers": []}})
        await send({{"type": "http.response.body", "body": b"{side}"}})
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return two checkouts of a project; this one is the current folder."""
    here, other = tmp_path / "here", tmp_path / "other"
    for folder in (here, other):
        package = folder / "src" / "inner"
        package.mkdir(parents=True)
        for path in (folder / "shop.py", package / "__init__.py"):
            path.write_text(SHOP.format(side=folder.name))
        (folder / "queue.py").write_text("")  # which must not hide Python's
        (folder / "web.py").write_text(APP.format(side=folder.name))
    monkeypatch.chdir(here)
    return here, other


def body(case: Case) -> str:
    """Start a case's server, and return its response."""
    running = server.start(case, {})
    try:
        status, content = get(running.url)
        assert status == 200
        return content.decode()
    finally:
        server.stop(running)


def other_side(text: str, against: str) -> tuple[Case, Case]:
    case = _case.parse_case(text)
    [other] = origins.counterparts([case], against)
    return case, other


@pytest.mark.server
@pytest.mark.parametrize(
    "text",
    [
        "3/shop.py:quote",
        *(
            pytest.param(text, marks=pytest.mark.slow)
            for text in ("4/shop:quote", "prefork/shop:quote")
        ),
    ],
)
def test_a_users_function_is_that_of_the_other_checkout(
    text: str, project: tuple[Path, Path]
) -> None:
    case, other = other_side(text, "../other")
    assert (body(case), body(other)) == ("here", "other")
    [found] = origins.differences([case], [other])
    assert found == f"{project[0]} instead of {project[1]}"
    assert other.name == f"{case.name} from ../other"


@pytest.mark.server
def test_a_package_on_pythonpath_is_that_of_the_other_checkout(
    project: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, _ = project
    monkeypatch.setenv("PYTHONPATH", f"{os.environ.get('PYTHONPATH', '')}:{here / 'src'}")
    monkeypatch.syspath_prepend(str(here / "src"))
    case, other = other_side("3/inner:quote", "../other")
    assert (body(case), body(other)) == ("here", "other")


@pytest.mark.server
def test_a_folder_of_imports_is_that_of_the_other_checkout(project: tuple[Path, Path]) -> None:
    here, other = project
    case = Case("threads", "inner:quote", path=str(here / "src"))
    [there] = origins.counterparts([case], str(other))
    assert (there.path, body(case), body(there)) == (str(other / "src"), "here", "other")


@pytest.mark.suites
@pytest.mark.parametrize("text", ["uvicorn_h11/app=web:app", "uvicorn_h11/app=web.py:app"])
def test_an_application_is_that_of_the_other_checkout(
    text: str, project: tuple[Path, Path]
) -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed: make test-all")
    case, other = other_side(text, "../other")
    assert (body(case), body(other)) == ("here", "other")


def test_the_folder_within_a_repository_is_kept(
    project: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, other = project
    for folder in project:
        (folder / ".git").mkdir()
        (folder / "api").mkdir()
        (folder / "api" / "views.py").write_text(SHOP.format(side=folder.name))
    monkeypatch.chdir(here / "api")
    _, there = other_side("3/views:quote", str(other))
    assert there.origin == Origin(str(other), folder=str(other / "api"))
    shutil.rmtree(other / "api")
    with pytest.raises(UsageError, match=r"no folder .*/other/api': start the command"):
        other_side("3/views:quote", str(other))


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return another checkout of this toolkit, whose noop_sync has another response."""
    folder = tmp_path_factory.mktemp("toolkit") / "other"
    for part in ("src", "servers", "tasks", "pipepool/src", "docs"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, folder / part, symlinks=True, ignore=ignored)
    task = folder / "tasks" / "noop.py"
    changed, count = re.subn(r"return b?\"[^\"]*\"", 'return "of the other"', task.read_text())
    assert count == 1
    task.write_text(changed)
    return folder


@pytest.mark.slow
@pytest.mark.server
def test_a_task_and_a_server_of_ours_are_those_of_the_other_checkout(
    toolkit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    for name in ("threads", "processes"):
        case = Case(name, "noop_sync")
        [other] = origins.counterparts([case], str(toolkit))
        assert body(other) == "of the other" != body(case)
    [found] = origins.differences([case], [other])
    commit = r" \([\w.-]+\)"
    assert re.fullmatch(rf"{ROOT}({commit})? instead of {toolkit}", found)


@pytest.mark.slow
@pytest.mark.server
def test_a_block_measures_both_sides_beside_each_other(toolkit: Path) -> None:
    [other] = origins.counterparts([NOOP], str(toolkit))
    base, now = measure_cases(other, NOOP)[::2]
    assert (base.case.origin, now.case.origin) == (str(toolkit), None)
    assert base.baseline.body_sha256 != now.baseline.body_sha256
    assert base.result.rate and now.result.rate
    assert base.problem is now.problem is None


def test_a_users_file_within_the_toolkit_is_that_of_the_other_checkout(
    toolkit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT / "docs")
    _, other = other_side("3/shop.py:quote", str(toolkit))
    assert other.task == f"{toolkit}/docs/shop.py:quote"
    assert other.origin == Origin(str(toolkit), str(toolkit), str(toolkit / "docs"))


def test_another_interpreter_is_that_of_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONS", f"3.99={sys.executable}")
    case, other = other_side("3/noop_sync", "3.99")
    assert other == replace(case, python="3.99")
    assert other.name == "3@3.99/noop_sync"


def environment(folder: Path, version: str) -> Path:
    """Create a venv with our packages and another version of Tornado by name."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=50)
    [packages] = folder.glob("lib/python*/site-packages")
    ours = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "ours.pth").write_text("\n".join(ours))
    facts = packages / f"tornado-{version}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tornado\nVersion: {version}\n")
    return folder


@pytest.mark.server
def test_an_environment_is_named_by_its_folder(tmp_path: Path) -> None:
    folder = environment(tmp_path / "venv", "6.4")
    case, other = other_side("3/noop_sync", str(folder))
    running = server.start(other, {})
    try:
        assert running.facts["executable"] == str(folder / "bin" / "python")
    finally:
        server.stop(running)
    [found] = origins.differences([case], [other])
    assert re.fullmatch(r"tornado 6\.\d[\d.]* instead of 6\.4", found)


@pytest.mark.server
def test_a_case_is_not_compared_with_itself(project: tuple[Path, Path], tmp_path: Path) -> None:
    for against in (".", str(ROOT)):
        with pytest.raises(UsageError, match="runs the same code on both sides: name another"):
            case, other = other_side("3/shop:quote", against)
            origins.differences([case], [other])
    monkey = environment(tmp_path / "venv", "6.4")
    shutil.rmtree(next(monkey.glob("lib/python*/site-packages/tornado-6.4.dist-info")))
    case, other = other_side("3/noop_sync", str(monkey))
    with pytest.raises(UsageError, match="3/noop_sync runs the same code on both sides"):
        origins.differences([case], [other])


WRONG = {
    (
        "3/shop:quote",
        "../nosuch",
    ): "against='../nosuch' is not a folder, an interpreter or a version",
    ("3/shop:quote", "tornado=6.4"): "write against=../other, against=3.13 or against=tornado==6.4",
    ("3/shop:quote", "3.98"): "no Python at '3.98': offload pythons shows",
    ("3/shop:quote", "~nosuch/x"): "is not a folder",
    ("3/shop:quote", "x" * 5000): "is not a folder",
    ("3/noop_sync", "../other"): "3/noop_sync runs no code from ../other: choose cases with",
    ("3/only_here.py:quote", "../other"): "/other/only_here.py' to compare with",
    ("3/json:dumps", "../other"): ", outside of ",
    ("3/nosuch:f", "../other"): "3/nosuch:f runs no code from ../other",
}


@pytest.mark.usefixtures("no_other_python")
@pytest.mark.parametrize(("text", "against"), WRONG)
def test_what_cannot_be_compared_is_one_line(
    text: str, against: str, project: tuple[Path, Path]
) -> None:
    here, _ = project
    (here / "only_here.py").write_text(SHOP)
    with pytest.raises(UsageError) as raised:
        other_side(text, against)
    assert WRONG[text, against] in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_every_form_is_distinguished() -> None:
    for word in ("tornado==6.4", "my.pkg-x_1==1!2.0.dev1+local"):
        assert origins.VERSION.fullmatch(word)
    for word in (
        "tornado",
        "tornado>=6",
        "tornado==",
        "../a==b",
        "3.13",
        "a b==1",
        "tornado==6.4 x",
    ):
        assert not origins.VERSION.fullmatch(word)
    assert PYTHON_NAME.fullmatch("3.13t")
    assert catalog.find_server("3").name == "threads"


def test_a_package_that_only_one_side_has_is_named(tmp_path: Path) -> None:
    now, before = {"tornado": "6.5", "uvloop": "0.22"}, {"tornado": "6.5", "pip": "24.0"}
    same = {"toolkit": "/t", "work": None, "python": "3.11.7", "program": "/p", "gil": None}
    found = origins._differences({**same, "packages": now}, {**same, "packages": before})
    assert found == ["uvloop 0.22 instead of none"]
    found = origins._differences({**same, "packages": before}, {**same, "packages": now})
    assert found == ["no uvloop instead of 0.22"]


@pytest.mark.server
def test_an_environment_may_print_at_its_start(tmp_path: Path) -> None:
    folder = environment(tmp_path / "venv", "6.4")
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "noise.pth").write_text("import sys; print('hello from a .pth file')\n")
    case, other = other_side("3/noop_sync", str(folder))
    assert origins.differences([case], [other])


@pytest.mark.server
@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo first >&2; echo 'Unknown option: -P' >&2; exit 2", r"\(Unknown option: -P\)"),
        ("exit 3", r"\(exit code 3\)"),
        (None, r"\(No such file or directory\)"),
    ],
)
def test_an_interpreter_that_does_not_start_is_one_line(
    script: str | None, why: str, tmp_path: Path
) -> None:
    folder = tmp_path / "a venv with spaces"
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").touch()
    if script is not None:
        python = folder / "bin" / "python"
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
    case, other = other_side("3/noop_sync", str(folder))
    with pytest.raises(StartError, match=f"spaces/bin/python does not start {why}: name another"):
        origins.differences([case], [other])


@pytest.mark.server
def test_a_checkout_may_have_spaces_and_quotes_in_its_name(
    project: tuple[Path, Path], tmp_path: Path
) -> None:
    _, other = project
    odd = other.rename(tmp_path / "an 'other' $x")
    case, moved = other_side("3/shop:quote", str(odd))
    assert body(moved) == "other"
    [found] = origins.differences([case], [moved])
    assert "an 'other' $x" in found
