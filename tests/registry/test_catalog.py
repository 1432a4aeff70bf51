"""The catalog finds entries by reading files, and suggests names for unknown ones."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from offload.errors import UsageError
from offload.registry import catalog, entries, places


def test_the_core_servers_come_first_in_their_order() -> None:
    assert list(catalog.servers())[:4] == ["sync", "loop", "threads", "processes"]


@pytest.mark.parametrize(
    ("word", "name"), [("3", "threads"), ("sync", "sync"), ("2_group", "loop")]
)
def test_a_server_is_found_by_number_name_and_other_spelling(word: str, name: str) -> None:
    assert catalog.find_server(word).name == name


def test_2_group_stands_for_the_split_task() -> None:
    assert catalog.default_task("2_group") == "sleep_async_split"
    assert catalog.default_task("2") == "sleep_sync"


@pytest.mark.parametrize(
    ("find", "word", "hint"),
    [
        (catalog.find_server, "threds", "did you mean threads?"),
        (catalog.find_server, "2_grup", "did you mean 2_group?"),
        (catalog.find_task, "network_sink", "did you mean network_sync?"),
        (catalog.find_driver, "seige", "did you mean siege?"),
        (catalog.find_suite, "tornados", "did you mean tornado?"),
    ],
)
def test_an_unknown_name_gets_a_suggestion(find: object, word: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint.replace("?", r"\?")):
        find(word)  # type: ignore[operator]


@pytest.mark.parametrize(
    "word", ["", "..", "../x", "_plain", "__init__", "a b", "x\ny", "1;ls", "É"]
)
def test_a_hostile_name_is_refused_on_one_line(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        catalog.find_server(word)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [catalog.servers, catalog.tasks, catalog.drivers, catalog.suites])
def test_everything_that_is_found_has_a_summary(kind: object) -> None:
    found = kind()  # type: ignore[operator]
    assert found
    assert all(entry.summary.endswith(".") for entry in found.values())


def test_finding_imports_nothing() -> None:
    before = set(sys.modules)
    catalog.servers(), catalog.tasks(), catalog.drivers(), catalog.suites()
    assert not {
        name
        for name in set(sys.modules) - before
        if name.startswith(("offload.tasks.", "offload.servers."))
    }


def test_a_file_with_a_syntax_error_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "broken.py").write_text("x = 1\ndef f(:\n")
    monkeypatch.setattr(catalog, "FOLDER", tmp_path)
    monkeypatch.setattr(places, "CHECKOUT", tmp_path)
    with pytest.raises(UsageError, match=r"tasks/broken\.py:2 cannot be read"):
        catalog.tasks()


def test_an_alias_is_a_task_and_a_private_function_is_none() -> None:
    assert catalog.find_task("network_sync").path.name == "network.py"
    assert not [name for name in catalog.tasks() if name.startswith("_")]


@pytest.mark.parametrize("word", ["{}/shop.py", "{}/shop.py:"])
def test_for_a_file_without_a_function_its_functions_are_listed(tmp_path: Path, word: str) -> None:
    (tmp_path / "shop.py").write_text("def quote(): 1\nasync def price(): 1\ndef _own(): 1\n")
    file = f"{tmp_path}/shop.py"
    with pytest.raises(UsageError) as caught:
        catalog.find_task(word.format(tmp_path))
    expected = f"{file} is a file, not a function: write {file}:FUNCTION, it has quote, price"
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("shop", "shop is a module, not a function: write shop:FUNCTION, it has quote"),
        ("web.shop", "web.shop is a module, not a function: write web.shop:FUNCTION, it has price"),
        ("shop.quote", "'shop.quote' does not name a function: write shop:quote"),
        ("web.shop.price", "'web.shop.price' does not name a function: write web.shop:price"),
    ],
)
def test_a_module_is_not_taken_for_a_task_and_a_colon_is_before_the_function(
    tmp_path: Path, word: str, expected: str
) -> None:
    (tmp_path / "web").mkdir()
    (tmp_path / "shop.py").write_text("def quote(): 1\n")
    (tmp_path / "web" / "shop.py").write_text("def price(): 1\n")
    with pytest.raises(UsageError) as caught:
        catalog.find_task(word, str(tmp_path))
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("x = 1\n", r"shop\.py:FUNCTION, it has no public function yet"),
        ("def f(:\n", r"/shop\.py:1 cannot be read"),
        (None, r"no file '.*/shop\.py': a task of your own is path/to/file\.py:function"),
    ],
)
def test_a_file_without_a_function_is_one_line(
    tmp_path: Path, content: str | None, expected: str
) -> None:
    if content is not None:
        (tmp_path / "shop.py").write_text(content)
    with pytest.raises(UsageError, match=expected):
        catalog.find_task(f"{tmp_path}/shop.py")


@pytest.mark.parametrize("where", ["a" * 5000, "~nobody_of_this_name/a"])
def test_a_file_that_cannot_be_is_no_file(where: str) -> None:
    with pytest.raises(UsageError, match="no file '") as caught:
        catalog.find_task(f"{where}.py:f")
    assert len(str(caught.value)) < 300


@pytest.fixture
def a_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of the test's own, with an empty servers/ and tasks/."""
    for folder in ("servers", "tasks"):
        (tmp_path / folder).mkdir()
    monkeypatch.setattr(catalog, "FOLDER", tmp_path)
    monkeypatch.setattr(places, "CHECKOUT", tmp_path)
    return tmp_path


SERVE = "def serve(task, port):\n    pass\n"


@pytest.mark.parametrize(
    ("one", "other", "word"),
    [
        ("NUMBER = 3\n", "NUMBER = 3\n", "3"),
        ("NUMBER = 3\n", "ALSO = {'3': 'sleep_sync'}\n", "3"),
        ("ALSO = {'3_group': 'a'}\n", "ALSO = {'3_group': 'b'}\n", "3_group"),
        ("", "ALSO = {'one': 'a'}\n", "one"),
    ],
)
def test_two_servers_that_answer_to_one_word_are_both_named(
    a_root: Path, one: str, other: str, word: str
) -> None:
    (a_root / "servers" / "one.py").write_text(one + SERVE)
    (a_root / "servers" / "other.py").write_text(other + SERVE)
    expected = rf"^servers/one\.py and servers/other\.py both use '{word}': change NUMBER or ALSO"
    for find in (catalog.servers, lambda: catalog.find_server("one")):
        with pytest.raises(UsageError, match=expected):
            find()


def test_servers_with_numbers_of_their_own_or_none_are_found(a_root: Path) -> None:
    (a_root / "servers" / "one.py").write_text(
        f"NUMBER = 3\nALSO = {{'3': 'a', 'one': 'b'}}\n{SERVE}"
    )
    (a_root / "servers" / "other.py").write_text(SERVE)
    (a_root / "servers" / "third.py").write_text(SERVE)
    assert list(catalog.servers()) == ["one", "other", "third"]


@pytest.mark.parametrize(
    ("folder", "find", "expected"),
    [
        (
            "servers",
            catalog.find_server,
            r"^servers/half\.py has no serve\(task, port\): define",
        ),
        ("loads", catalog.find_driver, r"^loads/half\.py has no command\(load\): define"),
    ],
)
def test_a_file_without_its_function_is_named(
    a_root: Path, folder: str, find: Callable[[str], object], expected: str
) -> None:
    (a_root / folder).mkdir(exist_ok=True)
    (a_root / folder / "half.py").write_text("async def serve(task, port): 1\n")
    with pytest.raises(UsageError, match=expected):
        find("half")
    assert [
        words.partition(" ")[0] for words in entries.find_incomplete(a_root / folder).values()
    ] == [f"{folder}/half.py"]


@pytest.mark.parametrize("other", ["async def quote(): 1\n", "def price(): 1\nquote = price\n"])
def test_two_files_that_define_one_task_are_both_named(a_root: Path, other: str) -> None:
    (a_root / "tasks" / "a.py").write_text("def quote(): 1\n")
    (a_root / "tasks" / "b.py").write_text(other)
    with pytest.raises(
        UsageError, match=r"^tasks/a\.py and tasks/b\.py both define 'quote': rename"
    ):
        catalog.tasks()


@pytest.mark.parametrize("word", ["shop:", ":quote", "shop:quote()", "a b/shop", "/etc/passwd"])
def test_a_word_that_does_not_name_a_function_is_refused_with_the_right_form(word: str) -> None:
    form = r"a task of your own is package\.module:function or path/to/file\.py:function$"
    with pytest.raises(UsageError, match=f"^{re.escape(repr(word))} does not name .*: {form}"):
        catalog.find_task(word)


def test_a_digit_is_offered_numbers_and_other_spellings_while_they_are_few(a_root: Path) -> None:
    (a_root / "servers" / "one.py").write_text(f"NUMBER = 2\nALSO = {{'2_group': 'a'}}\n{SERVE}")
    (a_root / "servers" / "other.py").write_text(SERVE)
    with pytest.raises(UsageError, match=r"'9' in servers/: choose from 2, 2_group, one, other$"):
        catalog.find_server("9")
    with pytest.raises(UsageError, match=r"'x' in servers/: choose from one, other$"):
        catalog.find_server("x")
    for number in range(10):
        (a_root / "servers" / f"more_{number}.py").write_text(SERVE)
    with pytest.raises(UsageError, match=r"'9' in servers/: offload list lists them all$"):
        catalog.find_server("9")


@pytest.mark.parametrize("name", catalog.RUN_NAMES)
def test_a_suite_does_not_have_the_name_of_a_commands_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / f"{name}.py").write_text("CASES = ()\n")
    monkeypatch.setattr(catalog, "FOLDER", tmp_path)
    with pytest.raises(UsageError, match=f"the same name as the runs of offload {name}: rename it"):
        catalog.suites()
