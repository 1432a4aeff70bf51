"""The printed handlers: each compiles, passes ruff, and imports the function that was asked for."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from offload.errors import UsageError
from offload.registry import places
from offload.studies.advise import handlers
from offload.studies.advise.handlers import STRATEGIES, _function
from offload.studies.advise.handlers._function import Function
from offload.studies.advise.handlers._program import Plan
from tests.commands import fab_here

QUOTE = Function("shop.pricing:quote", "shop.pricing", "quote", False, True, Path("/srv"))
KINDS = {
    "def": QUOTE,
    "coroutine": replace(QUOTE, is_coroutine=True),
    "lambda": replace(QUOTE, is_picklable=False),
    "named-as-the-program": replace(QUOTE, name="app", is_coroutine=True, is_picklable=False),
    "file": replace(QUOTE, module="my-shop"),
    "installed": replace(QUOTE, module="feedparser", name="parse", folder=None),
    "arguments": replace(QUOTE, arguments='[1, {"a": None}, "x"]'),
    "named-arguments": replace(QUOTE, is_coroutine=True, arguments='{"basket": [1, 2, 3]}'),
    "json": replace(QUOTE, is_json=True),
    "json-coroutine": replace(QUOTE, is_json=True, is_coroutine=True),
    "standard": replace(QUOTE, module="json", name="dumps", folder=None),
}
PROCESSES = {"prefork": 4, "threads": 2}
EVERY = [
    pytest.param(framework, strategy, kind, id=f"{framework}-{strategy}-{kind}")
    for framework in handlers.names()
    for strategy in STRATEGIES
    for kind in KINDS
]


def rendered(framework: str, strategy: str, kind: str = "def") -> handlers.Handler:
    processes = PROCESSES.get(strategy, 1)
    return handlers.render(framework, Plan(KINDS[kind], strategy, 4, 25, processes))


def advised(framework: str, task: str, path: Path, strategy: str = "prefork") -> handlers.Handler:
    sizes = (2, 1)
    return handlers.write_handler(
        framework, task, is_coroutine=False, path=str(path), strategy=strategy, sizes=sizes, users=8
    )


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "pricing.py").write_text(
        "import functools\n\ndef quote(): ...\n\nprice = lambda: 1\n\n"
        "@functools.cache\ndef cached(): ...\n"
    )
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.delitem(sys.modules, "shop", raising=False)  # that of another test
    yield tmp_path
    assert "shop" not in sys.modules, "the module is read, not imported"


@pytest.mark.parametrize(("framework", "strategy", "kind"), EVERY)
def test_every_program_compiles_without_a_warning(framework: str, strategy: str, kind: str) -> None:
    handler = rendered(framework, strategy, kind)
    with warnings.catch_warnings(action="error"):
        compile(handler.code, handler.file, "exec")
    assert max(map(len, handler.code.splitlines())) <= 100


def test_every_program_passes_ruff_with_its_default_rules(tmp_path: Path) -> None:
    for framework, strategy, kind in (each.values for each in EVERY):
        name = f"{framework}_{strategy}_{kind}".replace("-", "_")
        code = rendered(str(framework), str(strategy), str(kind)).code
        (tmp_path / f"{name}.py").write_text(code)
    (tmp_path / "shop").mkdir()  # beside the program, as in its project
    (tmp_path / "shop" / "pricing.py").touch()
    for words in (["check"], ["check", "--select", "I"], ["format", "--diff"]):
        ruff = [sys.executable, "-m", "ruff", *words, "--no-cache", "--isolated"]
        ruff += ["--line-length", "100"]
        done = subprocess.run(ruff, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "value", [[1, 2.5, None, True], {"basket": ["tea", {"x": [1e-9]}]}, ['a"b\n', "é"], [[7] * 90]]
)
def test_arguments_are_source_that_returns_them(value: object, shop: Path, tmp_path: Path) -> None:
    file = tmp_path / "basket.json"
    file.write_text(json.dumps(value))
    found = advised("fastapi", f"shop.pricing:quote(@{file})", shop)
    assert "from shop.pricing import quote" in found.code
    assert max(map(len, found.code.splitlines())) <= 100
    source, _, _ = found.code.partition("ARGUMENTS = ")[2].partition("\n\n\n")
    assert ast.literal_eval(source) == value


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1", "cannot be read"),
        ("[NaN]", "NaN is not a number"),
        ("[1e999]", "inf is not a number"),
        ('["\\ud800"]', "cannot be read"),
        (json.dumps(["x" * 3000]), "too long for a program"),
        (None, "No such file"),
    ],
)
def test_arguments_that_no_program_can_contain_are_one_line(
    content: str | None, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "basket.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UsageError, match=message):
        handlers.check_arguments("flask", f"shop:quote(@{file})")
    handlers.check_arguments("", f"shop:quote(@{file})")
    handlers.check_arguments("flask", "shop:quote")
    with pytest.raises(UsageError, match="the same arguments in each call"):
        handlers.check_arguments("flask", "shop:quote(shop:baskets)")


@pytest.mark.parametrize("framework", handlers.names())
def test_each_package_has_a_floor_once(framework: str) -> None:
    lines = rendered(framework, "threads").packages
    names = [line.partition(">=")[0] for line in lines]
    assert all(re.fullmatch(r"[a-z]+>=[\d.]+", line) for line in lines)
    assert len({*names}) == len(names)
    assert framework.partition("_")[0] in names


@pytest.mark.parametrize("framework", handlers.names())
def test_pipepool_is_needed_where_it_is_imported(framework: str) -> None:
    handler = rendered(framework, "pipes")
    assert ("pipepool" in handler.packages) == ("import PipePool" in handler.code)
    assert ("is not on PyPI" in handler.text) == ("pipepool" in handler.packages)
    [install] = [line for line in handler.text.splitlines() if "pip install " in line]
    installed = shlex.split(install.partition("pip install ")[2])  # quoted: > would write a file
    assert {*handler.packages} - {"pipepool"} == {*installed}
    assert "pipepool" not in rendered(framework, "processes").packages


def test_a_strategy_without_a_handler_is_one_line() -> None:
    with pytest.raises(UsageError, match="no handler for dask: use loop, threads"):
        rendered("tornado", "dask")


@pytest.mark.parametrize(
    ("task", "line", "start"),
    [
        ("shop.pricing:quote", "from shop.pricing import quote", "PYTHONPATH={folder} "),
        (
            "{folder}/shop/pricing.py:quote",
            "from pricing import quote",
            "PYTHONPATH={folder}/shop ",
        ),
        ("xml_feedparser_sync", "from offload.tasks.xml import xml_feedparser_sync", ""),
        ("network_sync", "from offload.tasks.network import network_sync", ""),
        ("json:dumps", "from json import dumps", ""),
    ],
)
def test_a_program_imports_the_function_from_where_it_is(
    shop: Path, task: str, line: str, start: str
) -> None:
    found = advised("tornado", task.format(folder=shop), shop)
    assert f"\n{line}" in found.code
    assert found.start == f"{start.format(folder=shop)}python app.py"


def test_a_program_is_not_saved_over_the_package_of_its_function() -> None:
    plan = Plan(Function("app.prices:quote", "app.prices", "quote", False, True), "loop", 1, 25)
    handler = handlers.render("flask", plan)
    assert (handler.file, handler.start.split()[-1]) == ("server.py", "server:app")


@pytest.mark.parametrize(
    ("name", "expected"), [("quote", True), ("price", False), ("cached", False), ("none", False)]
)
def test_only_a_plain_def_is_sent_to_a_process_itself(
    shop: Path, name: str, expected: bool
) -> None:
    found = _function.find(f"shop.pricing:{name}", False, str(shop))
    assert found.is_picklable is expected
    code = handlers.render("fastapi", Plan(found, "pipes", 2, 25)).code
    assert (f"pool.run({name})" in code) is expected
    assert ("pool.run(call)" in code) is not expected


def test_a_file_that_this_python_cannot_parse_has_a_handler(shop: Path) -> None:
    """It may be run by a newer Python, or be edited during the measurement."""
    (shop / "shop" / "pricing.py").write_text("def quote(: ...\n")
    assert not _function.find("shop.pricing:quote", False, str(shop)).is_picklable
    found = advised("fastapi", "shop.pricing:quote", shop)
    assert "from shop.pricing import quote" in found.code


def test_pythonpath_keeps_what_it_had(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    found = advised("fastapi", "shop.pricing:quote", shop)
    assert found.start.startswith(f"PYTHONPATH={shop}:$PYTHONPATH uvicorn app:app ")


def test_the_text_has_the_program_and_its_command(shop: Path) -> None:
    handler = advised("fastapi", "shop.pricing:quote", shop)
    heading, code, rest = handler.text.partition(handler.code)
    assert (heading, code) == ("Handler (fastapi), to be saved as app.py:\n\n", handler.code)
    assert rest.startswith(f"\nStart it: {handler.start}\n")
    assert handler.note is None
    assert rest.endswith(f"\nMeasure it, too: PYTHONPATH={shop} offload advise app=app.py:app")
    assert "Measure it" not in advised("tornado", "shop.pricing:quote", shop).text
    slow = advised("django_async", "shop.pricing:quote", shop)
    assert f"\nNote: {slow.note}"[:40] in slow.text
    commands = ("Start it: ", "Measure it, too: ")
    lines = [line for line in slow.text.splitlines() if not line.startswith(commands)]
    assert max(map(len, lines)) <= 100


def test_the_json_has_all_of_a_program(shop: Path) -> None:
    values = advised("django", "shop.pricing:quote", shop).values
    assert [*values] == ["framework", "file", "code", "start", "packages", "note", "measure"]
    assert values["packages"] == places.lines_for(["django", "gunicorn"])


def test_an_unknown_framework_is_one_line_before_anything_is_measured() -> None:
    said = fab_here("advise:noop_sync,code=rails")
    names = ", ".join(handlers.names())
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr == f"error: no 'rails' in code=: choose from {names}\n"
    assert "did you mean fastapi?" in fab_here("advise:noop_sync,code=fastpi").stderr
