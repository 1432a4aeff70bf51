"""The printed handlers: each compiles, passes ruff, and imports the function that was asked for."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from offload.bench.advice import answer
from offload.bench.advice.inputs.probe import Probe
from offload.bench.advice.prediction import limits
from offload.bench.advice.question_file import Question
from offload.bench.advice.strategies import STRATEGIES
from offload.bench.stats.estimate import Estimate
from offload.errors import UsageError
from offload.flags import Flag
from offload.registry import requirements
from offload.reports.advice import answer_json, answer_text, handlers
from offload.reports.advice.handlers import _expected_rate, _function
from offload.reports.advice.handlers._function import Function
from offload.reports.advice.handlers._program import Plan
from offload.reports.tables import formats
from offload.suites import Case
from tests.bench.advice.probes import CORES, OVERHEADS, coroutine, probe
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


def predicted(task: str, path: str | None = None) -> answer.Answer:
    question = Question(probe(0.01, 0.01, task=task), OVERHEADS, 25)
    return answer.predict(question, Case("threads", task, path=path))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "pricing.py").write_text(
        "import functools\n\ndef quote(): ...\n\nprice = lambda: 1\n\n"
        "@functools.cache\ndef cached(): ...\n"
    )
    monkeypatch.delenv("PYTHONPATH", raising=False)
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
    found = handlers.for_answer("fastapi", predicted(f"shop.pricing:quote(@{file})", str(shop)))
    assert found is not None and "from shop.pricing import quote" in found.code
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
    found = handlers.for_answer("tornado", predicted(task.format(folder=shop), str(shop)))
    assert found is not None
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
    found = handlers.for_answer("fastapi", predicted("shop.pricing:quote", str(shop)))
    assert found is not None and "from shop.pricing import quote" in found.code


def test_pythonpath_keeps_what_it_had(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    found = handlers.for_answer("fastapi", predicted("shop.pricing:quote", str(shop)))
    assert found is not None
    assert found.start.startswith(f"PYTHONPATH={shop}:$PYTHONPATH uvicorn app:app ")


def test_the_answer_ends_with_the_program_and_its_command(shop: Path) -> None:
    found = predicted("shop.pricing:quote", str(shop))
    handler = handlers.for_answer("fastapi", found)
    assert handler is not None
    text = answer_text.text(found, None, handler)
    assert text.startswith(answer_text.text(found))
    _, heading, rest = text.partition("\nHandler (fastapi), to be saved as app.py:\n\n")
    assert heading
    assert rest.startswith(f"{handler.code}\nStart it: {handler.start}\n")
    assert (handler.note, handler.rate) == (None, None)
    slow = handlers.for_answer("django_async", found)
    assert slow is not None and slow.rate is not None
    assert f"Expect about {formats.number(slow.rate)}/s here." in " ".join(slow.text.split())
    _, note, _ = slow.text.partition("\nNote: Django passes each ASGI request through")
    assert note
    lines = [line for line in slow.text.splitlines() if not line.startswith("Start it: ")]
    assert max(map(len, lines)) <= 100


def test_the_json_has_the_handler_or_null(shop: Path) -> None:
    found = predicted("shop.pricing:quote", str(shop))
    assert json.loads(answer_json.as_json(found))["handler"] is None
    disturbed = replace(found, disturbed=Flag("busy", "another process was busy", ""))
    assert handlers.for_answer("django", disturbed) is None, "no advice, so no handler"
    handler = handlers.for_answer("django", found)
    values = json.loads(answer_json.as_json(found, handler))["handler"]
    assert [*values] == ["framework", "file", "code", "start", "packages", "note", "rate"]
    assert values["packages"] == requirements.lines_for(["django", "gunicorn"])


def expected_share(probe_: Probe, users: int, cpu_s: float) -> float:
    """Return the expected rate of a framework over the measured rate of the answer."""
    question = Question(replace(probe_, python_s=_expected_rate.PYTHON_S), OVERHEADS, users)
    found = answer.predict(question, Case("threads", probe_.task))
    measured = Estimate(500.0, 490.0, 510.0, 5, None, False)
    found = replace(found, chosen=replace(found.chosen, rate=measured))
    return _expected_rate.expected_rate(found, cpu_s) / 500.0


def test_a_framework_that_needs_more_cpu_has_a_lower_expected_rate() -> None:
    more_s = 1e-3
    cpu_s = _expected_rate.TORNADO_CPU_S + more_s
    tornado_s = 0.005 + OVERHEADS["prefork"].cpu_s
    limited_by_cpu = expected_share(probe(0.0, 0.005, 1.0), 25, cpu_s)
    assert limited_by_cpu == pytest.approx(tornado_s / (tornado_s + more_s), rel=0.02)
    assert expected_share(probe(2.0, 0.005), 25, cpu_s) == pytest.approx(1.0, abs=0.01)
    assert expected_share(probe(0.0, 0.005), 25, 0.1e-3) == pytest.approx(1.0), "less"


def test_the_cpu_time_of_a_framework_may_become_the_limit() -> None:
    """The users limit the rate of Tornado, and 2 cores / 2.7 ms are less than that."""
    call = probe(0.02, 0.001)
    own = Question(call, OVERHEADS, 25).model.ranking()[0]
    assert (own.strategy, own.limit) == ("prefork", limits.USERS)
    share = expected_share(call, 25, _expected_rate.TORNADO_CPU_S + 1e-3)
    assert CORES / 0.0027 / own.rate * 0.8 < share < CORES / 0.0027 / own.rate


def test_the_additional_time_of_a_framework_counts_on_its_event_loop() -> None:
    awaits = coroutine(0.0002, 0.0005, 25)
    question = Question(replace(awaits, python_s=_expected_rate.PYTHON_S), OVERHEADS, 25)
    chosen = question.model.predict("loop", 1)
    found = answer.predict(question, Case("loop", awaits.task))
    found = replace(found, chosen=replace(found.chosen, prediction=chosen))
    own_s, more_s = 1 / chosen.rate, 1e-3
    expected = _expected_rate.expected_rate(found, _expected_rate.TORNADO_CPU_S + more_s)
    assert expected == pytest.approx(1 / (own_s + more_s), rel=0.1)


def test_a_framework_takes_longer_on_a_slower_machine() -> None:
    found = predicted("noop_sync")
    rates = []
    for factor in (1, 2):
        probe_ = replace(found.question.probe, python_s=factor * _expected_rate.PYTHON_S)
        slower = replace(found, question=replace(found.question, probe=probe_))
        rates.append(_expected_rate.expected_rate(slower, 3e-3))
    (own_s, more_s) = (0.01 + OVERHEADS["prefork"].cpu_s, 3e-3 - _expected_rate.TORNADO_CPU_S)
    assert rates[1] / rates[0] == pytest.approx((own_s + more_s) / (own_s + 2 * more_s), rel=0.03)


@pytest.mark.parametrize("command", ["advise", "predict"])
def test_an_unknown_framework_is_one_line_before_anything_is_measured(command: str) -> None:
    said = fab_here(f"{command}:noop_sync,code=rails")
    names = ", ".join(handlers.names())
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr == f"error: no 'rails' in code=: choose from {names}\n"
    assert "did you mean fastapi?" in fab_here(f"{command}:noop_sync,code=fastpi").stderr
