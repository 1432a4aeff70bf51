"""Requests that fail or do not end under load have their cause named, soon and with its line."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from offload.causes import diagnosis
from offload.causes.execution import COST_GROWS
from offload.causes.failures import WORKER_FAILS, import_starts
from offload.causes.hangs import OWN_POOL_WAIT, OWN_SERVER_CALL, SLOTS_KEPT, STUCK_THREADS
from offload.engine import who, workload
from offload.engine.calling_process import find_application
from offload.engine.record import Record
from offload.engine.rounds import WindowDesign
from offload.errors import LOAD, STALLED, RunError, UsageError
from offload.studies.advise import study
from offload.studies.advise.evidence import Question
from offload.suites import Case, Request
from tests.installed import require
from tests.rounds import measure_cases

FOLDER = Path(__file__).parent / "failing"
USERS = 24


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "PATIENCE", 4.0)


def measure(
    server: str,
    app: str,
    path: str,
    with_gil: bool = False,
    folder: Path = FOLDER,
    sampled: tuple[int, ...] = (),
    **settings: Any,
) -> Record:
    """Measure one window of an application, `with_gil` after the load of a single user."""
    require(server)
    work, request = f"app={app}:app", Request(path)
    case = Case(server, work, USERS, settings=settings, path=str(folder), request=request)
    design = WindowDesign(has_one=True, is_probe=True, sampled=sampled)
    [record] = measure_cases(case, with_gil=with_gil, design=design)
    return record


@pytest.mark.server
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("server", "app", "path", "kind", "line"),
    [
        ("gunicorn_gthread", "report", "/nested", OWN_POOL_WAIT, ("report", "report.py")),
        ("uvicorn_httptools", "quotes", "/hangs", STUCK_THREADS, ("fetch", "quotes.py")),
        ("gunicorn_gthread", "orders", "/order", OWN_SERVER_CALL, ("order", "orders.py")),
        ("uvicorn_httptools", "quotes", "/locked", SLOTS_KEPT, ("never_released", "quotes.py")),
    ],
)
def test_the_cause_of_requests_that_do_not_end_is_named_with_its_line(
    server: str, app: str, path: str, kind: str, line: tuple[str, str]
) -> None:
    settings = {"workers": USERS if app == "report" else 4} if app in ("report", "orders") else {}
    record = measure(server, app, path, **settings)
    assert record.problem is not None and record.problem.kind == STALLED, record.result
    cause = diagnosis.diagnose([record])[0]
    assert cause.kind == kind, record.application.failing.stall
    assert cause.line is not None
    assert (cause.line.function, cause.line.file) == line


BREAKS = """
import time

ENDS = []


def app(environ, start):
    time.sleep(0.02)
    ENDS.append(time.monotonic())
    is_late = len(ENDS) > 20 and time.monotonic() > ENDS[20] + 3
    start("503 Service Unavailable" if is_late else "200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""


@pytest.mark.server
@pytest.mark.timeout(120)
def test_requests_that_fail_only_after_the_window_are_seen(tmp_path: Path) -> None:
    if who.find_py_spy() is None:
        pytest.skip(who.NOT_INSTALLED)
    (tmp_path / "breaks.py").write_text(BREAKS)
    record = measure("gunicorn_gthread", "breaks", "/", folder=tmp_path, sampled=(0,), workers=24)
    [cause] = [each for each in diagnosis.diagnose([record]) if each.kind == WORKER_FAILS]
    assert "of the load" in diagnosis.clause(cause, USERS)


KEEPS = """
import itertools
import queue
import threading
import time

IDLE = queue.LifoQueue()
NUMBERS = itertools.count()
SLOTS = threading.Semaphore(6)


class Link:
    def __init__(self):
        self.number, self.used = next(NUMBERS), 0

    def ask(self):
        self.used += 1
        if self.number % 8 == 1 and self.used > 25:
            return False  # at once, and for ever
        time.sleep(0.02)
        return True


def app(environ, start):
    if environ["PATH_INFO"] == "/full":
        works = SLOTS.acquire(blocking=False)
        if works:
            time.sleep(0.02)
            SLOTS.release()
    else:
        try:
            link = IDLE.get_nowait()
        except queue.Empty:
            link = Link()
        works = link.ask()
        IDLE.put(link)
    start("200 OK" if works else "503 Service Unavailable", [("Content-Length", "2")])
    return [b"ok"]
"""


@pytest.mark.server
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("path", "is_named"), [("/", True), ("/full", False)])
def test_a_kept_connection_that_breaks_is_told_from_requests_that_are_refused(
    tmp_path: Path, path: str, is_named: bool
) -> None:
    (tmp_path / "keeps.py").write_text(KEEPS)
    record = measure("gunicorn_gthread", "keeps", path, folder=tmp_path, workers=24)
    assert record.result.failed["5xx"], record.result
    found = [each.kind for each in diagnosis.diagnose([record])]
    assert (WORKER_FAILS in found) is is_named, record.application.failing
    assert diagnosis.NOTHING not in found


GIVES_UP = """
import time
from concurrent.futures import ThreadPoolExecutor

POOL = ThreadPoolExecutor(4)


def score():
    time.sleep(0.1)


def app(environ, start):
    try:
        POOL.submit(score).result(timeout=0.3)
        status = "200 OK"
    except TimeoutError:
        status = "503 Service Unavailable"
    start(status, [("Content-Length", "2")])
    return [b"ok"]
"""


@pytest.mark.server
@pytest.mark.timeout(120)
def test_a_pool_whose_calls_time_out_is_not_hidden_by_fewer_users(tmp_path: Path) -> None:
    require("gunicorn_gthread")
    (tmp_path / "gives_up.py").write_text(GIVES_UP)
    case = Case("advise", "app=gives_up:app", 25, path=str(tmp_path), request=Request("/"))
    with pytest.raises(RunError, match=r"all 4 threads of .*POOL .* in use .* in score "):
        study.advise(case, Question(), tmp_path / "run", lambda _: None)


@pytest.mark.server
@pytest.mark.timeout(120)
def test_threads_that_are_stuck_are_named_though_no_request_fails() -> None:
    record = measure("uvicorn_httptools", "quotes", "/known")
    assert record.problem is None, record.problem
    assert not record.result.failures
    cause = diagnosis.diagnose([record])[0]
    assert cause.kind == STUCK_THREADS, record.application
    assert cause.line is not None
    assert cause.line.function == "fetch"


@pytest.mark.server
@pytest.mark.timeout(120)
def test_an_application_that_fails_since_a_moment_says_how_it_responds_then() -> None:
    """It handles its errors, and logs them without their traceback."""
    record = measure("gunicorn_gthread", "orders", "/breaks", workers=4)
    assert record.problem is not None and record.problem.kind == LOAD
    then = "and a single request still fails (GET /breaks answered 500: not saved)"
    assert record.problem.message.endswith(then), record.problem
    error = record.application.failing.error or ""
    assert error.startswith("ConnectionError: the connection is broken since an earlier error (")
    assert "orders.py:" in error


@pytest.mark.server
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("path", "grows"), [("/reads", True), ("/price", False)])
def test_requests_that_make_later_ones_slower_are_seen_after_the_load(
    path: str, grows: bool
) -> None:
    """Each reads the orders of all before it: more than a thousand after the load."""
    record = measure("gunicorn_gthread", "orders", path, workers=4)
    assert record.problem is None and record.baseline.alone_after_s is not None
    found = [cause for cause in diagnosis.diagnose([record]) if cause.kind == COST_GROWS]
    assert bool(found) == grows, record.baseline
    if grows:
        said = diagnosis.sentence(found[0], USERS)
        assert "GET /reads make later ones slower: alone one takes" in said


@pytest.mark.server
@pytest.mark.timeout(120)
def test_a_load_of_a_single_user_that_stalls_ends_soon_too() -> None:
    began = time.monotonic()
    record = measure("uvicorn_httptools", "quotes", "/locked", with_gil=True)
    assert record.problem is not None and record.problem.kind == STALLED, record.result
    assert time.monotonic() - began < 60.0  # a request alone has a timeout of 30 s


@pytest.mark.server
@pytest.mark.timeout(120)
def test_calls_of_its_own_server_are_named_before_they_fail() -> None:
    record = measure("gunicorn_gthread", "orders", "/order", workers=4 * USERS)
    assert record.problem is None, record.problem
    assert OWN_SERVER_CALL in [cause.kind for cause in diagnosis.diagnose([record])]


@pytest.mark.server
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("server", "app", "path"),
    [
        ("gunicorn_gthread", "report", "/apart"),
        ("uvicorn_httptools", "quotes", "/works"),
        ("gunicorn_gthread", "orders", "/price"),
    ],
)
def test_a_twin_without_the_cause_has_a_rate(server: str, app: str, path: str) -> None:
    settings = {"workers": 4} if server == "gunicorn_gthread" else {}
    record = measure(server, app, path, **settings)
    assert record.problem is None, record.problem
    found = diagnosis.diagnose([record])
    assert not [cause.kind for cause in found if diagnosis.is_failure(cause)]


IMPORTS = {
    "server": "import http.server\n"
    "http.server.HTTPServer(('127.0.0.1', 0), None).serve_forever()\n",
    "wait": "import threading\nthreading.Event().wait()\n",
}


@pytest.mark.server
@pytest.mark.parametrize("name", IMPORTS)
def test_an_import_that_does_not_end_is_reported_soon_with_its_line(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "shop.py").write_text(f"def app(environ, start): ...\n\n{IMPORTS[name]}")
    began = time.monotonic()
    with pytest.raises(UsageError) as raised:
        find_application("app=shop:app", path=str(tmp_path))
    assert time.monotonic() - began < 25.0  # of 30 s until the import is too slow
    expected = {"server": "runs a server on port ", "wait": "has waited for "}
    assert f"importing shop:app {expected[name]}" in str(raised.value)
    assert f"{tmp_path / 'shop.py'}:4 (" in str(raised.value)
    assert "__main__" in raised.value.remedy


@pytest.mark.server
def test_what_an_import_starts_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "import multiprocessing, socket, threading, time\n"
        "def app(environ, start): ...\n"
        "SERVER = socket.create_server(('127.0.0.1', 0))\n"
        "POOL = multiprocessing.get_context('fork').Pool(2)\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    found = find_application("app=shop:app", path=str(tmp_path)).started
    known = [(each.what, each.count, each.file, each.line) for each in found]
    assert known == [("server", 1, "shop.py", 3), ("process", 2, "shop.py", 4)]
    assert len(found[0].ports) == 1


@pytest.mark.server
def test_threads_that_an_import_starts_are_reported_but_not_as_a_cause(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "import threading, time\n"
        "def app(environ, start): ...\n"
        "for _ in range(2):\n"
        "    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    [found] = find_application("app=shop:app", path=str(tmp_path)).started
    assert (found.what, found.count, found.file, found.line) == ("thread", 2, "shop.py", 4)
    assert import_starts([found]) == []
