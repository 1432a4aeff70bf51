"""advise app=...: errors are one line with an exit code; short advice; memory with preload."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from offload.engine import builder, journal
from offload.engine.run import measure_open_loops
from offload.loads import Arrivals
from offload.registry import catalog
from offload.suites import Case
from tests import ROOT
from tests.applications import APPS
from tests.applications.seeded import FOLDER
from tests.commands import fab, fab_here
from tests.installed import require
from tests.reports.live.serving import Events
from tests.rounds import measure_window
from tests.waiting import read_line, wait_until

LARGE = """
OBJECTS = [[number] for number in range(500_000)]
def wsgi(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})
"""
PATH = f"path={APPS}"
PRELOADING = [n for n in catalog.servers_of() if catalog.find_server(n).can_preload]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("app=shop:app,task=noop_sync", "a function and app= exclude each other"),
        ("app=shop:app,args=@a.json", "args= and app= exclude each other"),
        ("app=shop:app,code=flask", "code= and app= exclude each other"),
        ("noop_sync,request=/a", "request=, method=, body=, header= and beside= need app="),
        ("app=1:app:2", "'1:app:2' does not name an application"),
        ("app=shop:app,request=quote", "request='quote' is not a path"),
        ("app=shop:app,users=0", "users='0' is not a whole number"),
        ("app=shop:app,budget=5", "budget='5' is not a number from 30"),
        ("app=shop:app,memory=lots", "memory='lots' is not an amount of memory"),
    ],
)
def test_a_wrong_word_is_one_line_and_exit_code_2(words: str, message: str) -> None:
    said = fab_here(f"advise:{words}")
    assert said.returncode == 2, said
    [line] = said.stderr.strip().splitlines()
    assert line.startswith("error: ") and message in line


@pytest.mark.server
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("app=broken:app", 2, "importing broken raised NameError"),
        ("app=pure:app,request=/none", 5, "the application has no GET /none"),
        ("app=pure:app,request=/bad", 5, "ValueError: no such quote"),
        ("app=pure:app,memory=1M", 5, "no set-up fits into 1 MiB: "),
        ("app=pure:app,request=/wait,p99=5ms", 5, "no set-up reaches a p99 of 5 ms"),
    ],
)
def test_an_application_that_cannot_be_advised_on_is_one_line(
    words: str, code: int, message: str
) -> None:
    if "broken" not in words:
        require("uvicorn_httptools")
    said = fab(f"advise:{words},{PATH},budget=30")
    assert said.returncode == code, said
    assert said.stdout == "" and "Traceback" not in said.stderr
    last = said.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ") and message in last


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_advice_is_one_object_that_names_the_cause_and_is_shown_live(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require("gunicorn_gthread")
    monkeypatch.setenv("BROWSER", "true")
    monkeypatch.setenv("LIVE_MINUTES", "0.2")
    said = fab(f"advise:app=plain_pool:app,path={FOLDER},users=8,budget=30,format=json,open=yes")
    assert said.returncode in (0, 7), said  # 7: other tests disturb it
    found = json.loads(said.stdout)
    assert [cause["kind"] for cause in found["causes"]] == ["waits_elsewhere"]
    assert found["rate"] > 0 and found["kinds"] == ["wsgi"] and len(found["p95_s"]) == 2
    assert found["worker_memory_mib"]["pss"] > 5
    assert found["predicted_rate"] > 0 and found["limit"] in ("serial", "slots", "users", "cpu")
    assert found["deployment"].startswith("PYTHONPATH=")
    [url] = re.findall(r"live page: (\S+)", said.stderr)
    with Events(url) as events:
        view = events.until(lambda view: view["state"] == "ended")
    assert any(row[0].startswith("gunicorn_gthread") for row in view["rows"])


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_an_interrupted_advice_answers_by_what_is_known() -> None:
    require("gunicorn_gthread")
    code = "import sys; from offload.cli import main; sys.exit(main())"
    argv = [sys.executable, "-c", code, f"advise:app=plain_pool:app,path={FOLDER},budget=60"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as begun:
        assert begun.stderr is not None and begun.stdout is not None
        while "takes about" not in (line := read_line(begun.stderr)):
            assert line, "it ended before it compared servers"
        time.sleep(1)
        begun.send_signal(signal.SIGINT)
        output, errors = begun.communicate(timeout=60)
    assert begun.returncode == 130, errors
    assert b"plain_pool:app" in output.splitlines()[0]
    assert b"interrupted: the answer is from the measurements until then" in errors


@pytest.mark.server
@pytest.mark.timeout(120)
def test_an_advice_that_is_interrupted_before_its_first_record_leaves_no_folder(
    mark: Callable[[], list[psutil.Process]],
) -> None:
    require("gunicorn_gthread")
    code = "import sys; from offload.cli import main; sys.exit(main())"
    argv = [sys.executable, "-c", code, f"advise:app=plain_pool:app,path={FOLDER},budget=60"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as begun:
        while "one process of " not in (line := read_line(begun.stderr)):
            assert line, "it ended before it measured a server"
        assert wait_until(lambda: len(mark()) > 1)  # it has started a server
        begun.send_signal(signal.SIGINT)
        output, errors = begun.communicate(timeout=60)
    assert (begun.returncode, output) == (130, b""), errors
    assert errors.splitlines()[-1] == b"interrupted"
    assert wait_until(lambda: not mark())
    assert [*journal.RESULTS.iterdir()] == []


@pytest.mark.server
@pytest.mark.parametrize("server", PRELOADING)
def test_objects_that_are_frozen_before_the_fork_stay_shared(server: str, tmp_path: Path) -> None:
    """A full collection writes to the objects that it visits, and so copies their pages."""
    require(server)
    (tmp_path / "large.py").write_text(LARGE)
    entry = catalog.find_server(server)
    size = {"workers": 2} if entry.workers_are == "processes" else {"processes": 2}
    app = "app=large:app" if entry.serves == "asgi" else "app=large:wsgi"
    memory = {}
    for preload in ("no", "yes", "freeze"):
        settings = {**size, "preload": preload}
        case = Case(server, app, 8, settings=settings, path=str(tmp_path))
        arrivals, trial = [Arrivals(50.0, "poisson")], builder.new_trial("run")
        [record] = measure_open_loops(case, arrivals, trial, None, duration_s=2.0)
        assert record.problem is None, record.problem
        memory[preload] = record.resources.memory.collected_mib or 0.0
    assert memory["freeze"] < memory["yes"] - 20
    assert memory["freeze"] < memory["no"] - 20


@pytest.mark.server
@pytest.mark.parametrize("server", PRELOADING)
def test_preloaded_workers_report_and_share_the_application(server: str) -> None:
    require(server)
    entry = catalog.find_server(server)
    size = {"workers": 2} if entry.workers_are == "processes" else {"processes": 2}
    app = "app=pure:app" if entry.serves == "asgi" else "app=pure:wsgi"
    settings = {**size, "preload": "yes"}
    record = measure_window(Case(server, app, 8, settings=settings, path=str(APPS)))
    assert record.problem is None, record.problem
    own = record.application
    assert own.processes == 2 and own.requests and own.memory.pss_mib is not None
    assert own.memory.private_mib is not None and own.memory.private_mib < own.memory.pss_mib
