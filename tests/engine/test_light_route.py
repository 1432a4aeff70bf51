"""Light routes: found by their names if they differ from missing paths, and requested sparsely."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from offload.engine import light_route
from offload.engine.light_route import LEAST, NO_PATHS, LightPaths, Prober, find
from offload.engine.record import Baseline
from offload.engine.workload import FailedRequest
from offload.suites import Case, Request
from tests.applications.seeded import FOLDER
from tests.installed import lacks, require
from tests.rounds import measure_window

Answer = tuple[int, str]  # status and body
APPLICATION = {"application": "shop:app"}
_names = itertools.count()


@contextmanager
def served(answer: Callable[[str], Answer]) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """Serve paths by a function; yield the URL, and the path and the peer of each request."""
    seen: list[tuple[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            seen.append((self.path, self.client_address))
            status, text = answer(self.path)
            self.send_response(status)
            if status == 307:
                self.send_header("Location", f"{self.path}/")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", seen
        finally:
            server.shutdown()
            thread.join(10)


def paths_of(answer: Callable[[str], Answer], request: Request | None = None) -> list[str]:
    """Return the light routes that are found on a server of a new application."""
    with served(answer) as (url, _):
        case = Case("threads", f"app=shop{next(_names)}:app", request=request)
        return [*find(case, f"{url}/", APPLICATION, Baseline(0.05)).alone_s]


def routes(*names: str) -> Callable[[str], Answer]:
    return lambda path: (200, "ok") if path in names else (404, "nothing here")


def test_names_of_health_checks_are_found_if_missing_paths_are_not() -> None:
    assert paths_of(routes("/ping")) == ["/ping"]
    assert paths_of(routes("/health", "/healthz", "/livez")) == ["/healthz", "/livez"]
    assert paths_of(routes("/readyz/")) == ["/readyz/"]
    assert paths_of(routes("/quote")) == []


def test_a_redirect_to_the_name_with_a_slash_is_followed_by_its_name_alone() -> None:
    def answer(path: str) -> Answer:
        return {"/livez/": (200, "ok"), "/livez": (307, "")}.get(path, (404, ""))

    assert paths_of(answer) == ["/livez/"]


def test_the_loaded_route_is_not_a_light_one_beside_itself() -> None:
    assert paths_of(routes("/healthz"), Request("/healthz?full=yes")) == []


def test_an_application_that_answers_every_path_has_no_health_check_unless_it_differs() -> None:
    assert paths_of(lambda _: (200, "quote")) == []
    assert paths_of(lambda path: (200, f"quote of {path}")) == []
    counter = itertools.count()
    assert paths_of(lambda _: (200, f"quote {next(counter)}")) == []
    assert paths_of(lambda path: (200, "ok" if path == "/healthz" else "quote")) == ["/healthz"]


def test_a_check_that_fails_or_takes_a_second_is_none() -> None:
    assert paths_of(lambda path: (503, "down") if path == "/healthz" else (404, "")) == []

    def slow(path: str) -> Answer:
        if path == "/healthz":
            time.sleep(1.3)
        return (200, "ok") if path in ("/healthz", "/health") else (404, "")

    assert paths_of(slow) == ["/health"]


def test_an_application_is_searched_once_and_a_task_never() -> None:
    case = Case("threads", f"app=shop{next(_names)}:app")
    with served(routes("/ping")) as (url, seen):
        assert find(case, f"{url}/", {}, Baseline(0.05)) == NO_PATHS and not seen
        find(case, f"{url}/", APPLICATION, Baseline(0.05))
        first = len(seen)
        found = find(case, f"{url}/", APPLICATION, Baseline(0.05))
        assert [*found.alone_s] == ["/ping"]
        assert len(seen) - first == light_route.ALONE < first


def test_a_named_route_must_answer() -> None:
    case = Case("threads", "sleep_sync", request=Request("/quote", beside="/ready?a=1"))
    with served(routes("/ready?a=1")) as (url, _):
        found = find(case, f"{url}/quote", {}, Baseline(0.05))
        assert [*found.alone_s] == ["/ready?a=1"] and not found.is_found
    with (
        served(routes("/quote")) as (url, _),
        pytest.raises(FailedRequest, match=r"beside=/ready.*: it answered 404: name a route"),
    ):
        find(case, f"{url}/quote", {}, Baseline(0.05))


def test_requests_are_sparse_and_each_has_its_own_connection() -> None:
    quick = LightPaths({"/ping": 0.001})
    assert quick.interval_s == pytest.approx(0.1)  # 1 % of the time
    assert LightPaths({"/ping": 0.0001}).interval_s == light_route.SHORTEST_S
    assert LightPaths({"/ping": 0.2}).interval_s == light_route.LONGEST_S
    assert LightPaths({"/ping": 0.2}, least_s=60.0).interval_s == 1.0
    assert quick.window_s > LEAST * quick.interval_s and NO_PATHS.window_s == 0.0
    with served(routes("/ping")) as (url, seen):
        prober = Prober(f"{url}/", LightPaths({"/ping": 0.0005}, loaded_s=0.1))
        began = time.monotonic()
        with prober:
            time.sleep(1.0)
        sent_s = time.monotonic() - began
        [found] = prober.between(began, began + 1.0, 10)
        count = len(seen)
        assert count == len({peer for _, peer in seen}) <= sent_s / 0.05 + 2
        assert len(found.taken_s) >= 5 and found.failed == 0
        assert found.share == pytest.approx(len(found.taken_s) * 0.0005 / (10 * 0.1), abs=1e-4)
        assert prober.between(began - 9.0, began - 8.0, 10)[0].taken_s == ()
        assert prober.between(None, None, 0) == ()


def test_failed_requests_and_those_without_an_answer_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(light_route, "TIMEOUT_S", 0.3)
    numbers = itertools.count()

    def answer(path: str) -> Answer:
        number = next(numbers)
        if number % 3 == 2:
            time.sleep(0.6)
        return (503, "") if number % 3 == 1 else (200, "ok")

    with served(answer) as (url, _):
        with Prober(f"{url}/", LightPaths({"/ping": 0.0005})) as prober:
            began = time.monotonic()
            time.sleep(0.8)
        [found] = prober.between(began, time.monotonic(), 0)
    assert max(found.taken_s) == 0.3 and found.failed >= 4 and found.share is None
    with Prober("http://127.0.0.1:9", LightPaths({"/ping": 0.0005})) as prober:  # refused
        began = time.monotonic()
        time.sleep(0.2)
    [refused] = prober.between(began, time.monotonic(), 9)
    assert refused.failed >= 1 and refused.taken_s == ()


@pytest.mark.server
@pytest.mark.timeout(120)
def test_a_health_check_is_measured_under_the_load_of_another_route() -> None:
    pytest.importorskip("fastapi", reason=lacks("fastapi"))
    require("uvicorn_httptools")
    case = Case(
        "uvicorn_httptools",
        "app=fastapi_health:app",
        60,
        path=str(FOLDER),
        request=Request("/report/7"),
    )
    record = measure_window(case, with_gil=True)
    assert record.problem is None, record.problem
    healthz, livez = record.application.beside
    assert (healthz.path, livez.path) == ("/healthz", "/livez")
    assert len(healthz.taken_s) >= LEAST and len(livez.taken_s) >= LEAST
    assert sorted(healthz.taken_s)[LEAST // 2] > 3 * sorted(livez.taken_s)[LEAST // 2]
    assert [route.route for route in record.application.routes] == ["GET /report/{number}"]
