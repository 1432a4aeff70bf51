"""offload gil app= compares one process with several, without direct calls, and advises by that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offload.documents.text import render
from offload.engine import decisions
from offload.engine.application import Application, Route
from offload.engine.decisions import Verdict
from offload.engine.figures import ComparedCases, Comparison
from offload.studies.gil import cost as gil_cost
from offload.studies.gil import document as report
from offload.studies.gil import figures
from offload.studies.gil.cost import GilCost
from offload.suites import Case, Request
from tests.applications import APPS
from tests.records import changed, record_of

RECORD = record_of("run", "gunicorn_gthread", "app=shop:app", 8, "run_server", "2026-01-01")
ONE = Case("threads", "app=pure:wsgi", users=8, path=str(APPS), request=Request("/cpu"))
FASTER = Verdict(decisions.FASTER, 2.0, 1.9, 2.1, 5, 0, 0.001)


def text_of(found: GilCost) -> str:
    return render(report.document(found), width=10_000)


def found(kind: str, verdict: Verdict = FASTER, **values: Any) -> GilCost:
    """Return the GIL cost of an application of a kind, whose window has values."""
    run_s = values.pop("run_s", None)
    facts = {"python": "3.11.7", "gil_enabled": True, **values.pop("interpreter", {})}
    record = changed(RECORD, workers=4, interpreter=facts, **values)
    routes = () if run_s is None else (Route("GET /a", 9, run_s, 0.0, run_s, run_s),)
    record = replace(record, application=Application(kind, routes=routes))
    settings = {"workers": 4} if kind == "wsgi" else {"processes": 4}
    other = replace(ONE, server="gunicorn_sync", settings=settings)
    cases = ComparedCases(ONE, other, Comparison(verdict), (1.0, 2.0), (record,), Path("gil"))
    return GilCost(record, figures.gil_figures(record), cases, None, None)


@pytest.mark.server
@pytest.mark.parametrize(
    ("app", "servers", "settings"),
    [
        ("pure:wsgi", ("gunicorn_gthread", "gunicorn_sync"), [{"workers": 2}, {"workers": 2}]),
        ("pure:app", ("gunicorn_asgi", "gunicorn_asgi"), [{"processes": 1}, {"processes": 2}]),
    ],
)
def test_one_process_is_compared_with_several(app: str, servers: Any, settings: Any) -> None:
    cases = gil_cost.application_cases(f"app={app}", 2, ONE)
    assert tuple(case.server for case in cases) == servers
    assert [case.settings for case in cases] == settings
    assert {(case.users, case.path, case.request) for case in cases} == {
        (8, str(APPS), Request("/cpu"))
    }


@pytest.mark.server
@pytest.mark.parametrize(
    ("app", "server", "settings", "others"),
    [
        ("pure:wsgi", "gunicorn_gthread", {"workers": 4, "processes": 2}, {"workers": 8}),
        ("pure:app", "gunicorn_asgi", {"processes": 2}, {"processes": 8}),
        (
            "fast:app",
            "uvicorn_workers",
            {"processes": 2, "workers": 4},
            {"processes": 8, "workers": 1},
        ),
    ],
)
def test_several_processes_of_threads_are_compared_with_as_many_processes(
    app: str, server: str, settings: dict[str, int], others: dict[str, int]
) -> None:
    if app.startswith("fast"):
        pytest.importorskip("fastapi", reason="fastapi is not installed: make test-all")
    threads, processes = gil_cost.application_cases(f"app={app}", 4, ONE, 2)
    assert (threads.server, threads.settings) == (server, settings)
    assert processes.settings == others


def test_several_processes_are_named_in_the_advice() -> None:
    several = found("asgi", settings={"processes": 2, "workers": 4}, server="uvicorn_workers")
    assert "4 processes have 2.00 times the rate of 2 processes with threads." in text_of(several)
    assert "1 - 2 processes / 4 processes" in text_of(several)
    assert "Measured: app=shop:app, 2 processes of 4 threads, Python" in text_of(several)


def test_the_figures_of_direct_calls_are_left_out() -> None:
    text, values = text_of(found("wsgi")), report.values(found("wsgi"))
    assert "S threads" not in text and "C direct" not in text and "switches" not in text
    assert "4 workers" in text and "1 - threads / processes, rates over HTTP" in text
    assert values["workers"] == 4
    unknown = ("s_threads", "s_processes", "switches", "cost_direct")
    assert [values[key] for key in unknown] == [None] * 4
    assert values["cost"] == 0.5
    assert "1 - one process / 4 processes" in text_of(found("asgi"))


@pytest.mark.parametrize(
    ("kind", "verdict", "values", "sentence"),
    [
        ("wsgi", FASTER, {}, "4 processes have 2.00 times the rate of one process with threads."),
        ("asgi", FASTER, {}, "4 processes have 2.00 times the rate of one process."),
        ("wsgi", FASTER, {"gil_utilisation": 0.97}, "The GIL is the limit of one process"),
        ("wsgi", FASTER, {"gil_utilisation": 0.4}, "The GIL is held for 40 % of the time, so"),
        ("asgi", FASTER, {"gil_utilisation": 0.1}, "The GIL is held for 10 % of the time, so"),
        (
            "asgi",
            FASTER,
            {"gil_utilisation": 0.1, "rate": 9.0, "run_s": 0.1},
            "The event loop is blocked: GET /a runs on it for 100 ms without a pause",
        ),
        (
            "asgi",
            FASTER,
            {"gil_why": "no core"},
            "Whether the GIL is the cause is unknown: no core",
        ),
        (
            "wsgi",
            replace(FASTER, outcome=decisions.SAME),
            {},
            "4 processes and one process with threads differ too little to matter",
        ),
        ("asgi", replace(FASTER, outcome=decisions.SLOWER), {}, "slower than one process"),
        ("asgi", replace(FASTER, outcome=decisions.UNRESOLVED), {}, "is unresolved"),
        (
            "wsgi",
            FASTER,
            {"interpreter": {"gil_enabled_by": "numpy.core"}},
            "The import of numpy.core switched the GIL on in this free-threaded Python",
        ),
        (
            "wsgi",
            FASTER,
            {"interpreter": {"gil_enabled": False}},
            "The GIL is off, so something else limits one process.",
        ),
    ],
)
def test_the_advice_follows_from_the_figures(
    kind: str, verdict: Verdict, values: dict[str, Any], sentence: str
) -> None:
    assert sentence in text_of(found(kind, verdict, **values))
