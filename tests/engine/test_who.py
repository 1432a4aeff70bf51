"""Which lines hold the GIL, block the loop or wait: parsing of stacks, and real servers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from offload.engine import hot_lines, server, who
from offload.engine.application import HotLine
from offload.engine.hot_lines import Frame, Samples, Stack
from offload.registry import places
from offload.suites import Case
from tests import ROOT
from tests.installed import lacks, require

HOT = Path(__file__).with_name("hot")
LIB = "/usr/lib/python3.12"
SITE = "/home/me/.venv/lib/python3.12/site-packages"
FUNCTIONS = {
    "python_loop": hot_lines.HOLDS,
    "json_parse": hot_lines.HOLDS,
    "lxml_parse": hot_lines.COMPUTES,
    "sqlite_query": hot_lines.COMPUTES,
    "lock_held": hot_lines.WAITS,
    "sleep_on_loop": hot_lines.BLOCKS,
    "requests_on_loop": hot_lines.BLOCKS,
    "backtracking": hot_lines.HOLDS,
    "c_call": hot_lines.HOLDS,
    "recursion": hot_lines.HOLDS,
}
APPLICATIONS = {
    "with_middleware": ("middleware", hot_lines.BLOCKS),
    "with_body": ("response body", hot_lines.BLOCKS),
    "with_background": ("background task", hot_lines.BLOCKS),
    "with_def_route": ("route", hot_lines.WAITS),
    "with_async_route": ("route", hot_lines.BLOCKS),
    "with_await": (None, hot_lines.AWAITS),
}
# Without capabilities, root is to the kernel an ordinary user who samples his own processes.
UNPRIVILEGED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
USERS = [pytest.param((), id="as_is"), pytest.param(UNPRIVILEGED, id="unprivileged")]

needs_py_spy = pytest.mark.skipif(who.find_py_spy() is None, reason=lacks("py_spy"))


def frames(*places: str) -> tuple[Frame, ...]:
    """Frames from words such as `view@/home/me/shop.py:3`, the outermost first."""
    found = []
    for place in places:
        function, _, rest = place.partition("@")
        file, _, line = rest.rpartition(":")
        found.append(Frame(function, file, int(line)))
    return tuple(found)


def test_lines_of_py_spy_have_the_last_process_and_all_frames() -> None:
    text = (
        'process 7:"python -c import a;import b";process 8:"/x y";thread (9): MainThread;'
        "_run_code (<frozen runpy>:88);Shop.view (/home/me/my shop/views.py:31) 12\n"
        'process 7:"python";thread (9);<module> (/home/me/a.py:-1) 1\n'
        "py-spy> nothing else is a stack\n"
    )
    assert hot_lines.parse_py_spy(text, 1) == [
        Stack(
            8,
            "9",
            frames("_run_code@<frozen runpy>:88", "view@/home/me/my shop/views.py:31"),
            12,
            "MainThread",
        ),
        Stack(7, "9", frames("<module>@/home/me/a.py:-1"), 1),
    ]


@pytest.mark.parametrize(
    ("file", "is_users"),
    [
        ("/home/me/shop/views.py", True),
        ("/home/me/lib/python/shop.py", True),
        (f"{LIB}/json/__init__.py", False),
        (f"{SITE}/starlette/routing.py", False),
        ("/usr/lib/python3/dist-packages/flask/app.py", False),
        ("/home/me/.venv/bin/gunicorn", False),
        ("<frozen importlib._bootstrap>", False),
        ("<string>", False),
        (str(places.PACKAGE / "serving" / "main.py"), False),
        (str(places.PACKAGE / "tasks" / "__init__.py"), False),
        (str(places.PACKAGE / "tasks" / "sleep.py"), True),
    ],
)
def test_the_users_files_are_told_from_libraries(file: str, is_users: bool) -> None:
    assert hot_lines.is_users(file) is is_users


ASGI = (f"run@{LIB}/asyncio/runners.py:1", f"__call__@{SITE}/starlette/applications.py:1")
POOL = (f"_bootstrap@{LIB}/threading.py:1", f"run@{SITE}/anyio/_backends/_asyncio.py:1")
WSGI = (f"_bootstrap@{LIB}/threading.py:1", f"handle@{SITE}/gunicorn/workers/gthread.py:1")
WORKER = (f"_bootstrap@{LIB}/threading.py:1", f"_worker@{LIB}/concurrent/futures/thread.py:1")


@pytest.mark.parametrize(
    ("outer", "context", "is_loop"),
    [
        ((*ASGI, f"app@{SITE}/starlette/routing.py:1"), "route", True),
        ((*ASGI, f"run_endpoint_function@{SITE}/fastapi/routing.py:1"), "route", True),
        ((*ASGI, f"__call__@{SITE}/starlette/middleware/base.py:1"), "middleware", True),
        ((*ASGI, f"stream_response@{SITE}/starlette/responses.py:1"), "response body", True),
        ((*ASGI, f"__call__@{SITE}/starlette/background.py:1"), "background task", True),
        ((*ASGI, f"solve@{SITE}/fastapi/dependencies/utils.py:1"), "dependency", True),
        ((f"run@{LIB}/asyncio/runners.py:1",), "asyncio task", True),
        (POOL, "thread pool", False),
        ((*POOL, f"_next@{SITE}/starlette/concurrency.py:1"), "response body", False),
        ((*WSGI, f"dispatch_request@{SITE}/flask/app.py:1"), "route", False),
        ((*WSGI, f"preprocess_request@{SITE}/flask/app.py:1"), "middleware", False),
        ((*WSGI, f"__next__@{SITE}/werkzeug/wsgi.py:1"), "response body", False),
        ((*WSGI, f"_get_response@{SITE}/django/core/handlers/base.py:1"), "route", False),
        ((*WSGI, f"inner@{SITE}/django/core/handlers/exception.py:1"), "middleware", False),
        ((*WSGI, f"__next__@{SITE}/django/http/response.py:1"), "response body", False),
        (WSGI, "application", False),
        (
            (f"run_forever@{LIB}/asyncio/base_events.py:1", f"_execute@{SITE}/tornado/web.py:1"),
            "route",
            True,
        ),
        (POOL[:1], "thread", False),
    ],
)
def test_the_frames_around_a_function_tell_what_it_is(
    outer: tuple[str, ...], context: str, is_loop: bool
) -> None:
    stack = frames(
        *outer, "view@/home/me/a.py:5", "help@/home/me/b.py:7", f"dumps@{LIB}/json/x.py:1"
    )
    spot = hot_lines.find_spot(stack)
    inner = frames(f"dumps@{LIB}/json/x.py:1")
    assert spot == hot_lines.Spot(Frame("help", "/home/me/b.py", 7), context, is_loop, inner)


def test_the_program_that_started_a_server_does_not_wait() -> None:
    started = ("<module>@/home/me/main.py:9", "main@/home/me/main.py:5")
    idle = frames(*started, f"run@{SITE}/uvicorn/main.py:1", f"select@{LIB}/selectors.py:1")
    assert hot_lines.find_spot(idle) is None
    assert hot_lines.find_spot(frames(*started)) == hot_lines.Spot(
        Frame("main", "/home/me/main.py", 5), None, False
    )


def test_a_loop_that_a_route_starts_is_not_the_servers() -> None:
    own = (*WSGI, "view@/a/x.py:9", f"run@{LIB}/asyncio/runners.py:1")
    idle = hot_lines.find_spot(frames(*own, f"select@{LIB}/selectors.py:1"))
    step = hot_lines.find_spot(frames(*own, f"_run@{LIB}/asyncio/events.py:1", "fetch@/a/x.py:3"))
    assert idle is not None and step is not None
    assert (idle.frame.function, idle.is_loop) == ("view", False)
    assert (step.frame.function, step.is_loop) == ("fetch", False)


def test_a_forked_process_is_not_where_its_parent_was() -> None:
    forked = (f"_bootstrap@{LIB}/multiprocessing/process.py:1", f"run@{LIB}/concurrent/x.py:1")
    parent = (*ASGI, "view@/home/me/a.py:5", f"start@{LIB}/multiprocessing/process.py:9")
    assert hot_lines.find_spot(frames(*parent, *forked)) is None
    assert hot_lines.find_spot(frames(*parent, *forked, "draw@/home/me/b.py:7")) == hot_lines.Spot(
        Frame("draw", "/home/me/b.py", 7), "process", False
    )


def samples(cores: float | None = None, **kinds: list[tuple[tuple[str, ...], int]]) -> Samples:
    stacks = {
        kind: [Stack(1, "1", frames(*places), count) for places, count in kinds.get(kind, [])]
        for kind in ("holding", "running", "every")
    }
    return Samples(dict.fromkeys(stacks, 100), **stacks, cores=cores)


def test_threads_that_wait_for_the_gil_of_a_line_do_not_hide_it() -> None:
    spin, read = (*WORKER, "spin@/a/x.py:2"), (*WORKER, "read@/a/x.py:9")
    found = hot_lines.find_lines(
        samples(
            holding=[(spin, 95)],
            running=[(spin, 95)],
            every=[(spin, 700), (read, 100), ((*POOL[:1], "consume@/a/x.py:30"), 100)],
        ),
        Path("/a"),
    )
    assert found == (
        HotLine("spin", "x.py", 2, 0.95, hot_lines.HOLDS, "thread pool"),
        HotLine("read", "x.py", 9, 0.125, hot_lines.WAITS, "thread pool"),
    )


@pytest.mark.parametrize(("sleeping", "doing"), [(60, "sleeps before a retry"), (40, "waits")])
def test_a_line_that_mostly_sleeps_in_a_library_before_a_retry_says_so(
    sleeping: int, doing: str
) -> None:
    call = (*WSGI, "level@/a/x.py:2", f"urlopen@{SITE}/urllib3/connectionpool.py:9")
    sleeps = (*call, f"_sleep_backoff@{SITE}/urllib3/util/retry.py:7")
    every = [(sleeps, sleeping), (call, 100 - sleeping)]
    [found] = hot_lines.find_lines(samples(every=every))
    assert (found.function, found.doing) == ("level", doing)


@pytest.mark.parametrize(("waiting", "lock"), [(60, hot_lines.LOG_LOCK), (40, None)])
def test_a_line_that_mostly_waits_for_a_logging_handler_says_so(
    waiting: int, lock: str | None
) -> None:
    call = (*WSGI, "decide@/a/x.py:2", f"callHandlers@{LIB}/logging/__init__.py:5")
    waits, sends = ((*call, f"{name}@{LIB}/logging/__init__.py:9") for name in ("acquire", "emit"))
    [found] = hot_lines.find_lines(samples(every=[(waits, waiting), (sends, 100 - waiting)]))
    assert (found.function, found.doing, found.waits_for) == ("decide", "waits", lock)


def test_a_line_that_waits_for_the_lock_of_a_cached_property_says_so() -> None:
    call = (*WSGI, "quote@/a/x.py:2", f"__get__@{LIB}/functools.py:981")
    fetches = (*call, "positioning@/a/x.py:7")
    [first, *_] = hot_lines.find_lines(samples(every=[(call, 60), (fetches, 1)]))
    assert (first.function, first.waits_for) == ("quote", hot_lines.PROPERTY_LOCK)


def test_what_lines_create_is_found_with_the_share_of_all_of_them() -> None:
    client = f"__init__@{SITE}/httpx/_client.py:9", f"create_default_context@{LIB}/ssl.py:7"
    one, other = (*ASGI, "quote@/a/x.py:2"), (*ASGI, "price@/a/x.py:9")
    own = (f"_bootstrap@{LIB}/threading.py:1", "refresh@/a/x.py:2", *client)
    every = [((*one, *client), 20), ((*other, *client), 10), (one, 70)]
    found = hot_lines.find_created(samples(every=every, holding=[(own, 90)]))
    line = HotLine("quote", "/a/x.py", 2, 0.3, hot_lines.BLOCKS, "middleware", "an httpx client")
    assert found == line
    assert hot_lines.find_created(samples(every=[(one, 70)], holding=[(own, 90)])) is None


def test_statements_that_a_new_engine_compiles_count_for_the_engine() -> None:
    route = (*WSGI, "quote@/a/x.py:2")
    engine = (*route, f"create_engine@{SITE}/sqlalchemy/engine/create.py:9")
    compiles = (*route, f"_compiler@{SITE}/sqlalchemy/sql/elements.py:9")
    for holding, share, creates in (
        ([(engine, 10), (compiles, 25), (route, 65)], 0.35, hot_lines.ENGINE),
        ([(compiles, 25), (route, 75)], 0.25, hot_lines.STATEMENT),
    ):
        found = hot_lines.find_created(samples(holding=holding))
        assert found is not None
        assert (found.creates, found.share, found.doing) == (creates, share, hot_lines.HOLDS)


def test_a_thread_of_the_application_counts_while_it_holds_the_gil_or_computes() -> None:
    own = (f"_bootstrap@{LIB}/threading.py:1", "refresh@/a/x.py:2")
    waits = (f"_bootstrap@{LIB}/threading.py:1", "poll@/a/x.py:5")
    found = hot_lines.find_lines(
        samples(holding=[(own, 80)], running=[(own, 90)], every=[(own, 100), (waits, 100)])
    )
    assert found == (HotLine("refresh", "/a/x.py", 2, 0.8, hot_lines.HOLDS, "thread"),)
    kinds = {"holding": [(own, 3)], "running": [(own, 90)], "every": [(own, 100)]}
    [found_too] = hot_lines.find_lines(samples(2.0, **kinds))
    assert found_too.doing == hot_lines.COMPUTES


def test_the_hottest_line_of_requests_is_not_hidden_by_threads_of_the_application() -> None:
    own = [(f"_bootstrap@{LIB}/threading.py:1", f"{n}@/a/x.py:2") for n in ("one", "two", "three")]
    route = (*ASGI, "view@/a/x.py:9")
    found = hot_lines.find_lines(samples(holding=[(each, 20) for each in own], every=[(route, 10)]))
    assert [line.function for line in found] == ["one", "two", "view"]


@pytest.mark.parametrize(
    ("sleeping", "doing", "share"),
    [(5400, hot_lines.WAITS, 0.844), (50, hot_lines.COMPUTES, 1.0)],
    ids=["most of them wait", "all of them compute"],
)
def test_threads_that_wait_for_a_cpu_do_not_compute(
    sleeping: int, doing: str, share: float
) -> None:
    line = (*WORKER, "order@/a/x.py:2")
    own = samples(1.5, running=[(line, 1000)], every=[(line, 1000 + sleeping)])
    [found] = hot_lines.find_lines(own, Path("/a"))
    assert found.doing == doing
    assert found.share == share


def test_the_lines_at_which_most_tasks_await_are_sums_over_all_processes() -> None:
    def report(**counts: int) -> dict[str, Any]:
        known = {"file": "x.py", "line": 7, "sleeping": {}}
        places = ({**known, "function": n, "count": c} for n, c in counts.items())
        return {"awaited": [*places]}

    found = who.find_awaits(
        [report(ask=30, rare=1), report(ask=40, show=29)], {("/a/x.py", "show"): "route"}
    )
    assert found == [
        HotLine("ask", "x.py", 7, 0.7, hot_lines.AWAITS),
        HotLine("show", "x.py", 7, 0.29, hot_lines.AWAITS, "route"),
    ]
    assert who.find_awaits([{}]) == []


def test_cold_lines_of_a_function_count_for_its_hottest_line() -> None:
    loop = {line: (*ASGI, f"loop@/a/x.py:{line}") for line in (1, 2, 3)}
    other = (*ASGI, "other@/a/x.py:9")
    every = [(loop[1], 10), (loop[2], 30), (loop[3], 11), (other, 35)]
    found = hot_lines.find_lines(samples(every=every))
    assert [(line.line, line.share) for line in found] == [(2, 0.51), (9, 0.35)]


def test_lines_that_a_library_runs_and_rare_lines_are_no_answer() -> None:
    assert hot_lines.find_lines(samples(every=[(ASGI, 100), ((*ASGI, "rare@/a/x.py:1"), 1)])) == ()


def test_a_library_that_holds_the_gil_without_a_line_of_the_user_is_named() -> None:
    library = "/venv/lib/python3.11/site-packages"
    checks = (*ASGI, f"app@{library}/fastapi/routing.py:7", f"check@{library}/pydantic/root.py:40")
    own = (*ASGI, "check@/a/x.py:1", f"check@{library}/pydantic/root.py:40")
    found = hot_lines.find_library_line(samples(holding=[(checks, 70), (ASGI, 20), (own, 10)]))
    assert found == HotLine("check", "pydantic/root.py", 40, 0.7, hot_lines.HOLDS, "library")
    assert hot_lines.find_library_line(samples(holding=[(checks, 40), (own, 60)])) is None


def test_a_missing_process_is_a_reason() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait(timeout=10)
    assert who.sample_stacks(child.pid) in (f"pid {child.pid} has ended", who.NOT_INSTALLED)


def test_without_a_sampler_the_reason_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(who, "find_py_spy", lambda: None)
    found = who.sample_stacks(os.getpid())
    assert found == "py-spy is not installed: pip install 'offload[who]'"


def sampled(kind: str, name: str, strategy: str, user: tuple[str, ...]) -> list[dict[str, Any]]:
    """Run hot/case.py as a user."""
    if user and shutil.which(user[0]) is None:
        pytest.skip(f"{user[0]} is not installed")
    command = [*user, sys.executable, "-m", "tests.engine.hot.case", kind, name, strategy]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["why"] is None
    lines: list[dict[str, Any]] = found["lines"]
    return lines


def hot_line(file: str, name: str) -> int:
    lines = (HOT / file).read_text().splitlines()
    [number] = [n for n, line in enumerate(lines, 1) if line.endswith(f"# hot: {name}")]
    return number


@needs_py_spy
@pytest.mark.server
@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_hot_line_of_a_function_is_the_first(name: str, user: tuple[str, ...]) -> None:
    strategy = "loop" if FUNCTIONS[name] == hot_lines.BLOCKS else "threads"
    first = sampled("function", name, strategy, user)[0]
    assert (first["file"], first["line"]) == ("functions.py", hot_line("functions.py", name))
    assert first["doing"] == FUNCTIONS[name]


@needs_py_spy
@pytest.mark.server
@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", APPLICATIONS)
def test_the_hot_line_of_an_application_is_the_first(name: str, user: tuple[str, ...]) -> None:
    pytest.importorskip("fastapi", reason=lacks("fastapi"))
    require("uvicorn_httptools")
    first = sampled("app", name, "uvicorn_httptools", user)[0]
    expected = ("applications.py", hot_line("applications.py", name))
    assert (first["file"], first["line"]) == expected
    assert (first["context"], first["doing"]) == APPLICATIONS[name]


@needs_py_spy
@pytest.mark.server
def test_a_function_is_named_and_its_server_allows_it_only_meanwhile() -> None:
    running = server.start(Case("threads", f"{HOT / 'functions.py'}:lock_held", users=4), {})
    try:
        with who.allow_sampling(running.facts) as pids:
            assert pids == {running.facts["pid"]}
        found, figures = who.sample_server(running.facts, who.Load(running.url, 4), HOT)
    finally:
        server.stop(running)
    assert {line.file for line in found.lines} == {"functions.py"}
    assert figures is not None and figures.completed
    assert found.lines[0].line == hot_line("functions.py", "lock_held")


def test_a_line_of_the_user_sleeps_before_a_retry_by_its_loop(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(
        "def ask():\n"
        "    for attempt in range(3):\n"
        "        try:\n"
        "            return call()\n"
        "        except OSError:\n"
        "            time.sleep(0.1)\n"
    )
    sleeps = (*WSGI, f"ask@{file}:6")
    [found] = hot_lines.find_lines(samples(every=[(sleeps, 90)]), tmp_path)
    assert (found.line, found.doing) == (6, hot_lines.RETRIES)
    file.write_text("def ask():\n\n\n\n\n    time.sleep(0.1)\n")
    [found] = hot_lines.find_lines(samples(every=[(sleeps, 90)]), tmp_path)
    assert found.doing == hot_lines.WAITS
