"""The printed handlers run as they are: they answer, fail and end as a server should."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import asdict
from http.client import HTTPException
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from offload.errors import GateError, StartError
from offload.studies.advise import handlers
from offload.studies.advise.handlers import STRATEGIES, _function
from offload.studies.advise.handlers._function import Function
from offload.studies.advise.handlers._program import Plan
from tests.waiting import wait_until

PRICING = """
import asyncio
import os
import pathlib
import signal
import threading
import time

HERE = pathlib.Path(__file__).parent

def quote():
    if (HERE / "raise").exists():
        raise ValueError("no price")
    if (HERE / "die").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    if (HERE / "wait").exists():
        (HERE / "called").touch()
        time.sleep(1)
    return "42 \\u20ac"

async def awaited():
    await asyncio.sleep(0.01)
    return quote().encode()

price = lambda: quote()

def total(*basket):
    return str(sum(basket))

async def discounted(basket):
    await asyncio.sleep(0.01)
    return str(sum(basket["prices"]) - basket["discount"])

class Calls:
    def __init__(self):
        self.lock, self.now, self.most = threading.Lock(), 0, 0

    def count(self, change):
        with self.lock:
            self.now += change
            self.most = max(self.most, self.now)

CALLS = Calls()

def meets():
    CALLS.count(1)
    time.sleep(0.2)
    CALLS.count(-1)
    return f"{os.getpid()} {CALLS.most}"

async def meets_on_loop():
    CALLS.count(1)
    await asyncio.sleep(0.2)
    CALLS.count(-1)
    return f"{os.getpid()} {CALLS.most}"
"""
COROUTINES = ("awaited", "discounted", "meets_on_loop")
BASKETS = {"total": [1, 2, 39], "discounted": {"basket": {"prices": [40, 4], "discount": 2}}}
PRICE = "42 \u20ac".encode()
Deploy = Callable[..., AbstractContextManager[str]]

pytestmark = pytest.mark.server


def missing(framework: str) -> str:
    """Return why the handlers of a framework cannot run here; an empty text if they can."""
    plan = Plan(Function("json:dumps", "json", "dumps", False, True), "loop", 1, 1)
    packages = handlers.render(framework, plan).packages
    names = [re.split(r"\W", package)[0] for package in packages]
    absent = [name for name in names if importlib.util.find_spec(name) is None]
    return f"a handler needs {' and '.join(absent)}: make test-all" if absent else ""


def cases(*functions: str, slow: bool = False) -> list[Any]:
    """Return each framework, strategy and function; the packages of most come with the suites.

    A framework that is not here is skipped as one test. With `slow` all but Tornado are.
    """
    found = []
    for framework in handlers.names():
        marks = [pytest.mark.suites] if framework != "tornado" else []
        marks += [pytest.mark.slow] if marks and slow else []
        if reason := missing(framework):
            skipped = [*marks, pytest.mark.skip(reason=reason)]
            found.append(pytest.param(framework, "", "", marks=skipped, id=framework))
            continue
        for strategy in STRATEGIES:
            for function in functions:
                name = f"{framework}-{strategy}-{function}"
                found.append(pytest.param(framework, strategy, function, marks=marks, id=name))
    return found


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = importlib.import_module("lab.experiments.handler_rate")
    monkeypatch.setattr(module, "WARM_S", 0.2)  # how exact a rate is proves nothing here
    return module


@pytest.fixture
def deploy(script: ModuleType, shop: Path, tmp_path: Path) -> Deploy:
    """Deploy by `deploy("tornado", "threads", "quote")`."""

    def begin(
        framework: str, strategy: str, function: str, sizes: tuple[int, int] | None = None
    ) -> AbstractContextManager[str]:
        task = function if ":" in function else f"shop.pricing:{function}"
        if function in BASKETS:
            (tmp_path / "basket.json").write_text(json.dumps(BASKETS[function]))
            task += f"(@{tmp_path}/basket.json)"
        found = _function.find(task, function in COROUTINES, str(shop))
        processes, workers = sizes or (2 if strategy in ("prefork", "threads") else 1, 2)
        handler = handlers.render(framework, Plan(found, strategy, workers, 12, processes))
        started: AbstractContextManager[str] = script.deployed(
            asdict(handler), tmp_path / "empty", {"PYTHONWARNINGS": "error"}
        )
        return started

    return begin


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "of the user"
    (folder / "shop").mkdir(parents=True)
    (folder / "shop" / "pricing.py").write_text(PRICING)
    return folder


def outcome(script: ModuleType, url: str) -> tuple[int, bytes] | None:
    """The response, None for a connection that a dying process closed."""
    try:
        status, body = script.get(url)
    except (OSError, HTTPException):
        return None
    return status, body


@pytest.mark.parametrize(("framework", "strategy", "function"), cases("quote"))
def test_it_answers_and_a_function_that_raises_is_a_500(
    script: ModuleType, deploy: Deploy, shop: Path, framework: str, strategy: str, function: str
) -> None:
    with deploy(framework, strategy, function) as url:
        assert script.get(url) == (200, PRICE)
        (shop / "shop" / "raise").touch()
        assert script.get(url)[0] == 500
        (shop / "shop" / "raise").unlink()
        assert script.get(url) == (200, PRICE)
    assert "no price" in (shop.parent / "empty.log").read_text(), "an error is logged"


@pytest.mark.parametrize(
    ("framework", "strategy", "function"), cases("awaited", "price", slow=True)
)
def test_it_answers_with_a_coroutine_and_with_a_lambda(
    script: ModuleType, deploy: Deploy, framework: str, strategy: str, function: str
) -> None:
    with deploy(framework, strategy, function) as url:
        assert script.get(url) == (200, PRICE)


SIZES = {"threads": [(1, 3), (2, 3)], "loop": [(1, 1)], "prefork": [(2, 1)]}


@pytest.mark.parametrize(
    ("framework", "strategy", "function", "sizes"),
    [
        pytest.param(*case.values, sizes, marks=case.marks, id=f"{case.id}-{sizes[0]}x{sizes[1]}")
        for case in cases("meets", "meets_on_loop", slow=True)
        for sizes in SIZES.get(str(case.values[1]), [])
    ],
)
def test_it_has_the_advised_processes_and_threads(
    script: ModuleType,
    deploy: Deploy,
    framework: str,
    strategy: str,
    function: str,
    sizes: tuple[int, int],
) -> None:
    """Twelve requests meet in all processes: in as many threads as advised, or on a loop."""
    processes, threads = sizes
    most: dict[str, int] = {}
    on_loop = strategy != "threads" and function == "meets_on_loop"
    expected = {threads} if not on_loop else {*range(4, 13)}

    def is_as_advised(url: str) -> bool:
        with ThreadPoolExecutor(12) as clients:
            for status, body in clients.map(script.get, [url] * 12):
                assert status == 200, body
                pid, count = body.split()
                most[pid] = max(most.get(pid, 0), int(count))
        return len(most) == processes and {*most.values()} <= expected

    with deploy(framework, strategy, function, sizes) as url:
        assert wait_until(lambda: is_as_advised(url)), most


@pytest.mark.parametrize(
    ("framework", "strategy", "function"), cases("total", "discounted", slow=True)
)
def test_it_calls_the_function_with_its_arguments(
    script: ModuleType, deploy: Deploy, framework: str, strategy: str, function: str
) -> None:
    with deploy(framework, strategy, function) as url:
        assert script.get(url) == (200, b"42")


@pytest.mark.parametrize(
    ("framework", "strategy", "function"),
    [case for case in cases("quote", slow=True) if case.values[1] not in ("loop", "threads")],
)
def test_a_worker_that_dies_is_replaced(
    script: ModuleType, deploy: Deploy, shop: Path, framework: str, strategy: str, function: str
) -> None:
    with deploy(framework, strategy, function) as url:
        (shop / "shop" / "die").touch()
        response = outcome(script, url)
        assert response is None or response[0] == 500
        (shop / "shop" / "die").unlink()
        assert wait_until(lambda: outcome(script, url) == (200, PRICE))


@pytest.mark.parametrize(("framework", "strategy", "function"), cases("quote"))
def test_under_load_all_requests_succeed_and_the_last_ones_are_answered_after_sigterm(
    script: ModuleType, deploy: Deploy, shop: Path, framework: str, strategy: str, function: str
) -> None:
    responses: list[tuple[int, bytes] | None] = []
    with deploy(framework, strategy, function) as url:
        assert script.rate(url, users=4, seconds=0.2) > 0
        (shop / "shop" / "wait").touch()
        user = threading.Thread(target=lambda: responses.append(outcome(script, url)))
        user.start()
        assert wait_until((shop / "shop" / "called").exists)
    user.join(timeout=20)
    assert responses == [(200, PRICE)]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["threads", "processes", "pipes"])
@pytest.mark.parametrize("task", ["{file}:quote", "{file}:main", "app.prices:quote"])
def test_it_finds_the_function_in_a_file_under_any_name(
    script: ModuleType, deploy: Deploy, shop: Path, task: str, strategy: str
) -> None:
    (shop / "app").mkdir()
    (shop / "app" / "prices.py").write_text(PRICING)
    file = shop / "shop" / "my-prices.py"
    file.write_text(f"{PRICING}\n\ndef main():\n    return quote()\n")
    with deploy("tornado", strategy, task.format(file=file)) as url:
        assert script.get(url) == (200, PRICE)


def test_a_handler_that_leaves_a_process_is_reported(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "END_S", 1.0)
    code = (
        "import http.server, subprocess\nsubprocess.Popen(['sleep', '60'])\n"
        "http.server.HTTPServer(('127.0.0.1', 8000),"
        " http.server.SimpleHTTPRequestHandler).serve_forever()\n"
    )
    leaving = {"file": "app.py", "code": code, "start": "python app.py"}
    with pytest.raises(GateError, match="left 1 s after SIGTERM: sleep 60"):  # noqa: SIM117
        with script.deployed(leaving, tmp_path / "leaving"):
            pass


def test_a_handler_that_does_not_start_is_reported(script: ModuleType, tmp_path: Path) -> None:
    broken = {"file": "app.py", "code": "import nosuch", "start": "python app.py"}
    with pytest.raises(StartError, match="the handler ended with 1: ModuleNotFoundError: No modu"):  # noqa: SIM117
        with script.deployed(broken, tmp_path / "broken"):
            pass


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("rate", "code"), [(0.01, 0), (1e9, 1)])
def test_the_script_compares_the_rate_with_that_of_the_answer(
    script: ModuleType,
    shop: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    rate: float,
    code: int,
) -> None:
    found = _function.find("shop.pricing:quote", False, str(shop))
    handler = handlers.render("tornado", Plan(found, "threads", 2, users=4))
    answer: dict[str, Any] = {
        "task": "shop.pricing:quote",
        "server": "threads",
        "processes": 1,
        "workers": 2,
        "rate": rate,
        "handler": handler.values,
    }
    (tmp_path / "answer.json").write_text(json.dumps(answer))
    words = [str(tmp_path / "answer.json"), "--seconds", "0.3", "--users", "4"]
    try:
        assert (script.main(words), code) == (0, 0)
    except GateError as error:
        assert error.exit_code == code
    assert re.fullmatch(r"\d.*/s, \S+ of \S+/s\n", capsys.readouterr().out)
