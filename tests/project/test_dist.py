"""Releases: one place for each version, and distributions that package indexes accept."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import BytesParser
from importlib.util import find_spec
from pathlib import Path

import pytest

import offload
import pipepool
from tests import ROOT
from tests.project import wheels

FOLDERS = {"offload": ROOT, "pipepool": ROOT / "pipepool"}
VERSIONS = {"offload": offload.__version__, "pipepool": pipepool.__version__}
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


@pytest.mark.parametrize("name", FOLDERS)
def test_the_changelog_begins_with_the_version(name: str) -> None:
    text = (FOLDERS[name] / "CHANGELOG.rst").read_text()
    headings = re.findall(r"^(\S+)\n-+$", text, re.MULTILINE)
    assert headings[0] == VERSIONS[name]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", heading) for heading in headings)


def test_every_fragment_is_one_entry_of_the_next_changelog() -> None:
    fragments = [path.read_text() for path in (ROOT / "changelog.d").glob("+*.rst")]
    assert [text for text in fragments if text.count("\n") != 1 or len(text) > 200] == []
    if find_spec("towncrier") is None:
        pytest.skip("towncrier is not installed")
    words = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9"]
    built = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert built.returncode == 0, built.stderr
    section = built.stdout.partition("9.9.9\n-----\n")[2]
    assert section.count("\n* ") == len(fragments)


@pytest.mark.parametrize("name", FOLDERS)
def test_the_version_is_in_no_other_file(name: str) -> None:
    line = re.compile(rf"^_*version_*\W+{re.escape(VERSIONS[name])}\b", re.MULTILINE)
    others = [ROOT / "CITATION.cff", ROOT / "docs" / "conf.py", FOLDERS[name] / "pyproject.toml"]
    assert [path.name for path in others if line.search(path.read_text())] == []


def test_both_packages_have_the_same_licence_and_type_information() -> None:
    assert (ROOT / "LICENSE").read_text() == (ROOT / "pipepool" / "LICENSE").read_text()
    for package in (offload, pipepool):
        assert (Path(str(package.__file__)).parent / "py.typed").is_file()


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_each_form_asks_for_the_doctor(form: Path) -> None:
    _, _, doctor = form.read_text().partition("id: doctor")
    assert "`offload doctor`" in doctor.partition("- type:")[0]
    assert "required: true" in doctor.partition("- type:")[0]


@pytest.mark.server
def test_the_forms_have_the_schema_of_github() -> None:
    pytest.importorskip("check_jsonschema")
    words = ["-m", "check_jsonschema", "--builtin-schema", "vendor.github-issue-forms", *FORMS]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(FORMS) >= 2


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return BytesParser().parsebytes(archive.read(name))


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_names_its_licence_by_spdx_and_contains_it(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wheel = wheels.build(tmp_path_factory)[name]
    found = metadata(wheel)
    assert (found["License-Expression"], found["License-File"]) == ("MIT", "LICENSE")
    assert found["Version"] == VERSIONS[name]
    assert found["Requires-Python"] == ">=3.11"
    assert "Typing :: Typed" in (found.get_all("Classifier") or [])
    names = zipfile.ZipFile(wheel).namelist()
    assert f"{name}/py.typed" in names
    assert [each for each in names if each.endswith("/licenses/LICENSE")]


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.timeout(400)
def test_the_wheel_that_its_sdist_gives_is_the_one_of_the_checkout(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if find_spec("build") is None or find_spec("twine") is None:
        pytest.skip("build and twine are not installed: make dist")
    of_checkout = wheels.build(tmp_path_factory)
    for name, folder in FOLDERS.items():
        run("build", "--outdir", str(tmp_path), str(folder))
        [wheel] = tmp_path.glob(f"{name}-*.whl")
        listed, expected = (zipfile.ZipFile(w).namelist() for w in (wheel, of_checkout[name]))
        assert sorted(listed) == sorted(expected)
    run("twine", "check", "--strict", *map(str, sorted(tmp_path.iterdir())))
    [sdist] = tmp_path.glob("pipepool-*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.rst", "CHANGELOG.rst", "tests/test_pool.py"} <= names


def run(module: str, *words: str) -> None:
    command = [sys.executable, "-m", module, *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
