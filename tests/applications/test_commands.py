"""Commands with app=: errors are one line with an exit code, and secrets stay out of files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from offload import options
from offload.engine import builder, journal, plan
from offload.engine.calling_process import find_application
from offload.engine.plan import Block
from offload.engine.record import WINDOW
from offload.errors import StartError, UsageError
from offload.studies.scale import sweep
from offload.suites import Case, Request
from tests.applications import APPS
from tests.commands import fab, fab_here, free_port, served
from tests.http_clients import get
from tests.installed import require
from tests.records import changed, record_of

PATH = f"path={APPS}"
BUSY = """
import subprocess, sys, threading, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
threading.Thread(target=time.sleep, args=(600,)).start()
print("it has started")
async def app(scope, receive, send): pass
"""
WILD = """
import os
for number in range(3, 12):
    try: os.write(number, b"7\\njunk\\n")
    except OSError: pass
async def app(scope, receive, send): pass
"""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run_server:threads,app=shop:app", "threads runs tasks, not an application: use one of "),
        ("run_server:hypercorn,noop_sync,app=shop:app", "app= and a task exclude each other"),
        ("run_server:hypercorn,app=1:app:2", "'1:app:2' does not name an application"),
        ("measure:app=shop:app", "no server given for app=: use one of granian_asgi"),
        ("measure:hypercorn/noop_sync,app=shop:app", "has a task, and app= replaces the task"),
        ("measure:threads,app=shop:app", "threads runs tasks, not an application"),
        ("measure:threads/app=shop:app", "threads runs tasks, not an application"),
        ("measure:hypercorn,app=shop/no.py:app", "no file"),
        ("measure:hypercorn,app=shop:app,request=quote", "request='quote' is not a path"),
        ("measure:hypercorn,app=shop:app,request=/a b", "encode them: a space is %20"),
        ("measure:hypercorn,app=shop:app,method=FETCH", "method='FETCH'"),
        ("measure:hypercorn,app=shop:app,body=@no.json", "body=@no.json: No such file"),
        ("measure:hypercorn,app=shop:app,header=secret", "a header in header= has no name"),
        ("measure:hypercorn,app=shop:app,path=/no/folder", "no folder '/no/folder' in path="),
        ("measure:hypercornx4,app=shop:app", "hypercorn has no workers"),
        ("scale:hypercorn,app=shop:app,workers=1+2", "hypercorn has no workers"),
        ("measure:hypercorn,app=shop:app,beside=/a b", "encode them: a space is %20"),
        ("measure:hypercorn,app=shop:app,beside=/", "beside=/ is the route that is loaded"),
        ("measure:3/noop_sync,beside=/healthz", "beside= needs app=, your application"),
        ("gil:noop_sync,app=shop:app", "a task and app= exclude each other"),
        ("gil:noop_sync,request=/a", "request=, method=, body=, header= and beside= need app="),
    ],
)
def test_a_wrong_word_is_one_line_and_exit_code_2(words: str, message: str) -> None:
    command, _, values = words.partition(":")
    said = fab_here(f"{command}:{values}")
    assert said.returncode == 2, said
    [line] = said.stderr.strip().splitlines()
    assert line.startswith("error: ") and message in line


def test_a_body_comes_from_a_file_and_makes_the_method_post(tmp_path: Path) -> None:
    (tmp_path / "quote.json").write_text('{"a": 1, "b": 2}')
    found = options.parse_request("/quote?x=1", "", f"@{tmp_path}/quote.json", "A: 1; B: 2")
    assert found == Request("/quote?x=1", "POST", '{"a": 1, "b": 2}', "A: 1; B: 2")
    assert found.message.headers == {"A": "1", "B": "2"}
    assert options.parse_request("", "", "", "", "livez") == Request(beside="/livez")
    assert options.parse_request("", "", "", "") is None
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is not text in UTF-8"):
        options.parse_request("", "", f"@{tmp_path}/binary", "")


def test_the_values_of_headers_are_in_no_file_and_such_a_run_is_not_continued() -> None:
    request = Request("/", header="Authorization: Bearer hidden; Accept: text/html")
    case = Case("hypercorn", "app=shop:app", request=request)
    own = plan.Plan("measure", (case,), 1, None, plan.Sequential(), blocks=(Block((0,)),))
    folder = journal.new_run("measure")
    journal.save_plan(own, folder)
    text = (folder / journal.RUN_FILE).read_text()
    assert "hidden" not in text and "Accept: text/html" in text
    facts = builder.case_facts(case, None)
    assert facts.request is not None and "hidden" not in str(facts.request)
    saved = journal.load_plan(folder).cases[0]
    assert saved.key == case.key == facts.key
    said = fab_here(f"resume:{folder.name}")
    assert (
        said.returncode,
        "sends a header, a body or a parameter whose value" in said.stderr,
    ) == (2, True)


def test_a_request_without_a_header_is_saved_as_before() -> None:
    request = Request("/graphql", "POST", "{}")
    facts = builder.case_facts(Case("threads", "noop_sync", request=request), None)
    assert facts.request == {"path": "/graphql", "method": "POST", "body": "{}"}
    assert facts.key == replace(facts, request=json.loads(json.dumps(facts.request))).key


def test_x_and_scale_vary_the_processes_of_a_server_without_workers() -> None:
    one = options.parse_case("gunicorn_asgix3@3.14", "pure:app")
    assert (one.settings, one.python, one.task) == ({"processes": 3}, "3.14", "app=pure:app")
    cases = sweep.cases(one, sweep.WORKERS, [1, 2])
    assert [case.settings for case in cases] == [{"processes": 1}, {"processes": 2}]
    assert sweep.varied(cases) == sweep.WORKERS
    windows = [
        changed(
            record_of("run", "gunicorn_asgi", "app=pure:app", 8, "fab", "2026-01-01", kind=WINDOW),
            settings={"processes": count},
            rate=10.0 * count,
        )
        for count in (1, 2)
    ]
    assert [*sweep.fit(windows, sweep.WORKERS).points] == [1, 2]


@pytest.mark.server
def test_the_kind_is_found_in_a_process_of_its_own() -> None:
    assert find_application("app=pure:app", path=str(APPS)).kinds == ("asgi",)
    assert find_application("app=site_of_tests.settings", path=str(APPS)).kinds == ("asgi", "wsgi")
    with pytest.raises(UsageError, match=r"importing broken raised NameError.*broken\.py:4"):
        find_application("app=broken:app", path=str(APPS))


@pytest.mark.server
def test_the_kind_is_found_although_the_application_starts_threads_and_processes(
    tmp_path: Path,
) -> None:
    (tmp_path / "busy.py").write_text(BUSY)
    assert find_application("app=busy:app", path=str(tmp_path)).kinds == ("asgi",)


@pytest.mark.server
def test_an_attribute_that_raises_an_error_is_described(tmp_path: Path) -> None:
    (tmp_path / "lazy.py").write_text("def __getattr__(name): raise LookupError(f'no {name}')\n")
    with pytest.raises(UsageError, match=r"app=lazy:app raised LookupError: no app \(.*lazy\.py:1"):
        find_application("app=lazy:app", path=str(tmp_path))


@pytest.mark.server
def test_an_application_that_writes_to_all_descriptors_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "wild.py").write_text(WILD)
    with pytest.raises(StartError, match="importing app=wild:app wrote to the pipe") as raised:
        find_application("app=wild:app", path=str(tmp_path))
    assert str(raised.value).count("\n") == 0


@pytest.mark.server
@pytest.mark.parametrize(
    ("app", "code", "message"),
    [
        ("broken:app", 2, "importing broken raised NameError"),
        ("pure:failing", 4, "pure:failing failed in its lifespan startup: no database: fix it"),
    ],
)
def test_run_server_ends_with_the_error_of_the_application(
    app: str, code: int, message: str
) -> None:
    require("uvicorn_httptools")
    said = fab(f"run_server:uvicorn_httptools,app={app},{PATH},port={free_port()}")
    assert said.returncode == code
    assert "Traceback" not in said.stderr
    assert f"error: {message}" in said.stderr.strip().splitlines()[-1]


@pytest.mark.server
def test_run_server_serves_an_application() -> None:
    require("uvicorn_httptools")
    port = free_port()
    with served(f"run_server:uvicorn_httptools,app=pure:app,{PATH},port={port}"):
        assert get(f"http://127.0.0.1:{port}/") == (200, b"app yes")


@pytest.mark.server
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ("/none", "the application has no GET /none (GET /none answered 404: nothing here): name"),
        ("/bad", "GET /bad answered 500: Internal Server Error (ValueError: no such quote ("),
    ],
)
def test_measure_reports_what_the_application_answers(request_: str, message: str) -> None:
    require("uvicorn_httptools")
    said = fab(
        f"measure:uvicorn_httptools,app=pure:app,{PATH},request={request_},quick=yes", timeout=100
    )
    assert said.returncode == 5, said.stderr
    assert message in said.stderr.strip().splitlines()[-1]


@pytest.mark.server
@pytest.mark.timeout(120)
def test_a_load_test_of_a_served_application_sends_its_request() -> None:
    require("gunicorn_asgi")
    port = free_port()
    with served(f"run_server:gunicorn_asgi,app=pure:app,{PATH},port={port},processes=2"):
        said = fab(
            f"run_load_test:port={port},request=/echo,body=two,requests=20,users=2,driver=builtin",
            "--header=X-Token: hidden",
            "--format=json",
        )
    assert said.returncode == 0, said.stderr
    [row] = json.loads(said.stdout)
    assert row["completed"] == 20
    assert row["request"]["body"].startswith("sha256:")
    assert row["request"]["body"].endswith(", 3 bytes")
    assert "hidden" not in said.stdout + said.stderr
    assert row["application"] is not None
    [record] = journal.read(journal.RESULTS / journal.LASTING)
    assert record.application.kind == "asgi"
    assert {route.route for route in record.application.routes} == {"POST /echo"}


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "words",
    [
        "compare:uvicorn_httptools,gunicorn_asgi,app=pure:app,quick=yes",
        "scale:gunicorn_asgi,app=pure:app,workers=1+2",
    ],
)
def test_two_cases_of_an_application_are_measured_side_by_side(words: str) -> None:
    require("uvicorn_httptools")
    require("gunicorn_asgi")
    said = fab(f"{words},{PATH}", timeout=350)
    assert said.returncode in (0, 7), said.stderr  # 7: other processes disturbed it
    records = journal.read(journal.newest())
    assert {record.case.task for record in records} == {"app=pure:app"}
    assert len({record.trial.case_index for record in records}) == 2
    assert all(record.result.rate for record in records if record.problem is None)
