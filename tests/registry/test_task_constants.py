"""The constants of a task's file are read without importing it, also in users' files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from offload.engine.builder import body_flags
from offload.engine.record import Record
from offload.engine.server import needs_upstream
from offload.registry import catalog, entries
from offload.suites import Case
from tests.commands import free_port, served
from tests.http_clients import get
from tests.records import new_record

SHOP = """
import os, urllib.request
NEEDS = ("upstream",)
PACKAGES = ("urllib3",)
STABLE = False
def page():
    return urllib.request.urlopen(os.environ["UPSTREAM_HTTP"] + "/page.html", timeout=5).read()
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with a package whose __init__.py must not run."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "shop" / "pages.py").write_text(SHOP)
    (tmp_path / "apart" / "inner").mkdir(parents=True)  # packages without __init__.py
    (tmp_path / "apart" / "inner" / "pages.py").write_text(SHOP)
    (tmp_path / "single.py").write_text(SHOP)
    return tmp_path


NAMES = ["shop.pages:page", "apart.inner.pages:page", "single:page"]


@pytest.mark.parametrize("name", NAMES)
def test_a_module_is_found_in_the_given_folder_without_an_import(own: Path, name: str) -> None:
    before = set(sys.modules)
    entry = catalog.find_task(name, str(own))
    assert (entry.name, entry.needs, entry.packages) == (name, ("upstream",), ("urllib3",))
    assert not catalog.has_constant_bodies(name, str(own))
    assert needs_upstream(Case("sync", name, path=str(own)))
    assert not {module for module in set(sys.modules) - before if "pages" in module}


def test_a_module_is_found_in_task_path_and_in_the_current_folder(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASK_PATH", str(own))
    assert catalog.find_task("shop.pages:page").needs_upstream
    monkeypatch.delenv("TASK_PATH")
    assert not catalog.find_task("shop.pages:page").needs_upstream
    monkeypatch.chdir(own)
    assert catalog.find_task("shop.pages:page").needs_upstream


def test_a_file_has_its_constants(own: Path) -> None:
    entry = catalog.find_task(f"{own}/single.py:page")
    assert entry.needs_upstream
    assert entry.packages == ("urllib3",)
    assert not catalog.has_constant_bodies(entry.name)


@pytest.mark.parametrize("text", ['"upstream"', '("upstream")', '["upstream"]', '("upstream",)'])
def test_a_name_may_be_a_string_a_list_or_a_tuple(tmp_path: Path, text: str) -> None:
    (tmp_path / "one.py").write_text(f"NEEDS = {text}\ndef page(): pass")
    assert catalog.find_task(f"{tmp_path}/one.py:page").needs == ("upstream",)


@pytest.mark.parametrize("text", ["def f(:", "NEEDS = 7", "\x00", "NEEDS = other()"])
def test_a_file_without_readable_constants_has_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.py").write_text(text)
    for name in (f"{tmp_path}/odd.py:page", "odd:page"):
        assert catalog.find_task(name, str(tmp_path)).needs == ()


@pytest.mark.parametrize("name", ["no_such.module", "os.path.no", "sys", "a b", "", "..x", "math"])
def test_a_module_without_a_python_file_is_none(name: str) -> None:
    assert entries.module_file(name, [str(Path(__file__).parent)]) is None


def test_a_package_itself_may_hold_the_function(own: Path) -> None:
    assert entries.module_file("shop", [str(own)]) == own / "shop" / "__init__.py"


def test_only_our_tasks_and_users_who_ask_for_it_have_their_responses_checked(
    tmp_path: Path,
) -> None:
    for name, text in {"same": "STABLE = True", "silent": "", "other": "STABLE = False"}.items():
        (tmp_path / f"{name}.py").write_text(f"{text}\ndef f(): pass")
    folder = str(tmp_path)
    checked = [catalog.has_checked_bodies(f"{n}:f", folder) for n in ("same", "silent", "other")]
    assert checked == [True, False, False]
    assert catalog.has_checked_bodies("noop_sync")


@pytest.mark.parametrize(("stable", "flagged"), [("STABLE = False", 0), ("", 1)])
def test_servers_may_differ_in_the_responses_of_an_unstable_function(
    tmp_path: Path, stable: str, flagged: int
) -> None:
    (tmp_path / "dated.py").write_text(f"{stable}\ndef now(): pass")
    one, other = (
        new_record(Case(server, "dated:now", path=str(tmp_path)), "run", body_sha256=server)
        for server in ("threads", "processes")
    )
    assert len(body_flags(one, [other])) == flagged


def test_a_flag_on_different_responses_names_both_cases() -> None:
    def of(workers: str, body: str) -> Record:
        case = Case("prefork", "count_sync", settings={"workers": workers})
        return new_record(case, "run", body_sha256=body)

    one, others = of("1", "a"), [of("2", "b"), of("1", "c")]
    found = [flag.message for each in others for flag in body_flags(one, [each])]
    start = "the responses of prefork(workers=1)/count_sync differ from those of"
    assert found == [f"{start} prefork(workers=2)/count_sync", f"{start} its earlier windows"]


@pytest.fixture
def an_upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder for an upstream of the test's own, also in the processes that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UPSTREAM_FOLDER", str(tmp_path_factory.mktemp("upstream")))
        yield


@pytest.mark.server
@pytest.mark.usefixtures("an_upstream")
def test_the_upstream_of_a_users_function_is_started_and_ended_with_its_server(own: Path) -> None:
    port = free_port()
    with served(f"run_server:1,single:page,path={own},port={port}"):
        status, body = get(f"http://127.0.0.1:{port}/")
        assert (status, len(body)) == (200, 5120)
