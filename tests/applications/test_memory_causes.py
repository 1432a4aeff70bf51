"""What the memory of a server shows about itself, measured on real servers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from offload.causes import diagnosis
from offload.causes.figures import figures
from offload.engine.application import Collector
from offload.engine.hot_lines import KEEPS
from offload.engine.record import Record, from_line, to_line
from offload.registry import catalog
from offload.studies.advise import application
from offload.suites import Case, Request
from tests import ROOT
from tests.applications.seeded import FOLDER
from tests.installed import lacks, require
from tests.rounds import measure_window

server = [pytest.mark.server, pytest.mark.timeout(120)]
FREEZE = {"SERVER_FREEZE": "yes"}


def measured(
    name: str,
    app: str,
    folder: Path = FOLDER,
    variables: dict[str, str] | None = None,
    may_fail: bool = False,
    **settings: Any,
) -> Record:
    """Measure one window of an application; its record is read back as from a file."""
    require(name)
    for package in ("starlette", "fastapi", "flask"):
        if app.startswith(package):
            pytest.importorskip(package, reason=lacks(package))
    case = Case(
        name,
        catalog.find_task(f"app={app}").name,
        users=16,
        settings=settings,
        path=str(folder),
        request=Request("/quote/7"),
        variables=variables or {},
    )
    record = measure_window(case, with_gil=True)
    assert record.problem is None or may_fail, record.problem
    assert from_line(to_line(record)).application == record.application
    return record


class TestCollector:
    """Shares of the CPU time, so that a busy machine does not change them much."""

    pytestmark = server

    def share(self, app: str, variables: dict[str, str] | None = None) -> float:
        record = measured("uvicorn_httptools", app, variables=variables)
        found = figures([record])
        assert found is not None and found.collected_share is not None
        return found.collected_share

    def test_its_share_is_that_of_the_objects_that_it_visits(self) -> None:
        visited = self.share("starlette_catalogue:app")
        assert visited > 0.05
        assert self.share("starlette_rows:app") < visited / 3
        assert self.share("starlette_catalogue:app", FREEZE) < visited


class TestArenas:
    """Page faults of threads, and of the blocks that no arena holds."""

    pytestmark = server

    def test_threads_that_allocate_blocks_fill_their_arenas(self) -> None:
        own = measured("uvicorn_httptools", "fastapi_report:app").application.memory.malloc
        assert own.arenas is not None and own.arenas > 8
        assert own.peak_mib is not None and own.peak_mib > 200

    def test_a_limit_of_arenas_is_one_for_the_server(self) -> None:
        variables = {"MALLOC_ARENA_MAX": "2"}
        record = measured("uvicorn_httptools", "fastapi_report:app", variables=variables)
        assert record.application.memory.malloc.arenas == 2
        found = figures([record])
        assert found is not None and "arenas" not in diagnosis.switches([record])

    def test_large_blocks_cause_page_faults_but_are_in_no_arena(self) -> None:
        record = measured("uvicorn_httptools", "fastapi_files:app")
        own, found = record.application.memory.malloc, figures([record])
        assert own.peak_mib is not None and own.peak_mib < 64
        assert found is not None and found.page_faults is not None and found.page_faults > 30_000
        assert "arenas" not in diagnosis.switches([record])


SHARED = """
from collections import deque
OBJECTS = [[number] for number in range(500_000)]
KEPT = deque(maxlen=400)
def keeps(environ, start_response):
    KEPT.append([[each] for each in range(4000)])
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
def reads(environ, start_response):
    total = sum(each[0] for each in OBJECTS[:200_000])
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""


@pytest.mark.server
@pytest.mark.timeout(120)
def test_what_collections_copy_is_not_what_requests_copy(tmp_path: Path) -> None:
    (tmp_path / "shared.py").write_text(SHARED)

    def collector(app: str, preload: str) -> Collector:
        settings = {"workers": 2, "preload": preload}
        record = measured("gunicorn_sync", app, folder=tmp_path, **settings)
        found = figures([record])
        assert found is not None
        return found.collector

    lost = collector("shared:keeps", "yes")
    assert lost.copied_mib is not None and lost.copied_mib > 16
    reads = collector("shared:reads", "yes")
    for each in (collector("shared:keeps", "freeze"), reads):
        assert each.copied_mib is not None and each.copied_mib < 8
    assert reads.unshared_mib is not None and reads.unshared_mib > 8  # the objects that it uses
    own = collector("shared:keeps", "no")
    assert (own.copied_mib, own.unshared_mib) == (None, None)


HUNGRY = """
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
KEPT = []
def quote(request):
    KEPT.append(bytearray(4 << 20))
    return PlainTextResponse("ok")
app = Starlette(routes=[Route("/quote/{number}", quote)])
"""


LIMITED = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (900 << 20,) * 2)
from offload.causes import diagnosis
from tests.applications.test_memory_causes import measured
record = measured("uvicorn_httptools", "hungry:app", Path(sys.argv[1]), may_fail=True)
print([diagnosis.clause(each, 16) for each in diagnosis.diagnose([record])][0])
"""


@pytest.mark.server
@pytest.mark.timeout(120)
def test_a_server_that_reaches_ulimit_v_is_told_by_its_numbers(tmp_path: Path) -> None:
    require("uvicorn_httptools")
    pytest.importorskip("starlette", reason=lacks("starlette"))
    (tmp_path / "hungry.py").write_text(HUNGRY)
    argv = [sys.executable, "-c", LIMITED, str(tmp_path)]
    said = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert re.fullmatch(r"the server uses [89]\d\d of the 900 MiB of ulimit -v\n", said.stdout), (
        said
    )


@pytest.mark.server
@pytest.mark.timeout(120)
@pytest.mark.parametrize("server", ["gunicorn_gthread", "waitress", "granian_wsgi"])
def test_the_line_whose_memory_is_kept_is_found(server: str) -> None:
    require(server)
    pytest.importorskip("flask", reason=lacks("flask"))
    source = (FOLDER / "flask_keeps.py").read_text().splitlines()
    line = next(number for number, text in enumerate(source, start=1) if "range(200)" in text)
    case = Case(server, catalog.find_task("app=flask_keeps:app").name, users=8, path=str(FOLDER))
    [found, *_] = application.trace_memory(case)
    assert (found.function, found.file, found.line) == ("render", "flask_keeps.py", line)
    assert found.doing == KEEPS and found.share > 0.8


@pytest.mark.server
@pytest.mark.timeout(120)
def test_an_application_that_does_not_start_keeps_no_line() -> None:
    require("gunicorn_gthread")
    case = Case("gunicorn_gthread", "app=no_such_module:app", users=8, path=str(FOLDER))
    assert application.trace_memory(case) == ()
