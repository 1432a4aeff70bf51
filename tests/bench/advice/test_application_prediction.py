"""The predicted rate of an application: its capacities, its text, and what would change it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from offload.bench.advice.application import choice
from offload.bench.advice.application.answer import ApplicationAnswer
from offload.bench.advice.application.prediction import Limit, OneProcess, Prediction
from offload.bench.advice.application.question_file import Question
from offload.bench.advice.application.sizes import Size
from offload.bench.records.application import Application, Route
from offload.reports.advice.application import answer_json, answer_text, changes
from tests.bench.advice.test_application_answer import ONE, QUESTION, TWO, Sized, planned, records

SLOW_ROUTE = Route("GET /", 50, 0.5, 0.001, 0.04, 0.05)
BLOCKED = Application("asgi", 1, 50, 0.5, 0.001, routes=(SLOW_ROUTE,))
# 10 ms of CPU in the server and 1 ms in the load tool, on 2 cores: at most 172.7/s
BUSY = {
    **{"alone_s": 0.012, "cores_used": 1.0, "elapsed_s": 1.0, "cpu_ms_per_request": 10.0},
    **{"driver_cpu_s": 0.01, "gil_utilisation": 0.5},
}
IDLE = {"cores_used": 0.1, "elapsed_s": 1.0, "cpu_ms_per_request": 0.5, "driver_cpu_s": 0.001}


def probe(
    rate: float,
    alone_s: float | None,
    cpu_s: float | None,
    one: Sized = ONE,
    users: int = 25,
) -> OneProcess:
    """Return a probe on 2 cores in which a request occupies a thread as long as it takes alone."""
    return OneProcess(*one, users, 2, rate, alone_s, alone_s, cpu_s)


def answered(
    rates: Mapping[Sized, float],
    own: Application | None = None,
    question: Question = QUESTION,
    **figures: Any,
) -> ApplicationAnswer:
    """Return the answer for some servers; the first one was also measured alone."""
    plan, more = planned(*rates), {} if own is None else {"own": own}
    values = dict(enumerate(rates.values()))
    alone = records(plan, {0: values[0]}, block=0, **more, **figures)
    return choice.evaluate(question, plan, [*alone, *records(plan, values, **more, **figures)])


def sentences(found: ApplicationAnswer) -> list[str]:
    return [*changes.sentences(found)]


GTHREAD, MORE_GTHREAD = ("gunicorn_gthread", Size(1, 25)), ("gunicorn_gthread", Size(2, 8))
SYNC = ("gunicorn_sync", Size(4))


@pytest.mark.parametrize(
    ("of", "sized", "expected"),
    [
        # each process has its own limit, such as a blocked loop
        (probe(25.0, 0.04, 0.001), TWO, Prediction(50.0, Limit.PROCESS)),
        # 10 ms of CPU: 1.9 cores are left, and one process uses only one
        (probe(99.0, 0.01, 0.01), ("uvicorn_workers", Size(4)), Prediction(190.0, Limit.CPU)),
        (probe(99.0, 0.01, 0.01), ONE, Prediction(99.0, Limit.PROCESS)),
        # a wait of 0.1 s: 25 users, 16 threads, 4 processes with one request each
        (probe(240.0, 0.1, 0.001), TWO, Prediction(250.0, Limit.USERS)),
        (probe(240.0, 0.1, 0.001), ONE, Prediction(250.0, Limit.USERS)),
        (probe(240.0, 0.1, 0.001, GTHREAD), MORE_GTHREAD, Prediction(160.0, Limit.WORKERS)),
        (probe(240.0, 0.1, 0.001, GTHREAD), SYNC, Prediction(40.0, Limit.WORKERS)),
        # unknown figures: only the rate of a process is left
        (probe(240.0, None, None), TWO, Prediction(480.0, Limit.PROCESS)),
    ],
)
def test_the_smallest_capacity_is_the_predicted_rate(
    of: OneProcess, sized: Sized, expected: Prediction
) -> None:
    found = of.predict(*sized)
    assert found is not None
    assert (found.rate, found.limit) == (pytest.approx(expected.rate), expected.limit)


def test_servers_that_cannot_be_compared_have_no_prediction() -> None:
    gevent = ("gunicorn_gevent", Size(1, 1000))
    assert probe(100.0, 0.1, 0.001).predict(*GTHREAD) is None  # WSGI, and the probe was ASGI
    assert probe(100.0, 0.1, 0.001, GTHREAD).predict(*gevent) is not None
    limited = probe(250.0, 0.1, 0.001, GTHREAD, users=100)  # by its 25 threads
    assert limited.predict(*gevent) is None
    assert limited.predict(*MORE_GTHREAD) == Prediction(pytest.approx(160.0), Limit.WORKERS)


def test_without_its_own_limit_the_others_are_left() -> None:
    found = probe(25.0, 0.04, 0.001).without_own_limit(*TWO)
    assert found == Prediction(625.0, Limit.USERS)
    assert probe(25.0, 0.04, None).without_own_limit(*TWO) is None


def test_an_answer_compares_its_prediction_with_the_measured_rate() -> None:
    found = answered({ONE: 95.0, TWO: 165.0}, **BUSY)
    said = " ".join(answer_text.text(found).split())
    expected = "172.7/s for uvicorn_workers with 2 processes, 5 % above the measured rate. "
    how = "It is calculated from one process of uvicorn_httptools, with 95.00/s."
    assert f"Prediction: {expected}{how}" in said
    values = json.loads(answer_json.as_json(found))
    assert (values["predicted_rate"], values["limit"]) == (pytest.approx(172.7, abs=0.1), "cpu")
    assert values["alternatives"][0]["predicted_rate"] == pytest.approx(95.0)
    assert values["changes"] == sentences(found)
    assert values["alone_s"] == 0.012


def test_more_cores_change_an_answer_that_the_cpu_limits() -> None:
    rates = {ONE: 95.0, TWO: 165.0}
    more = "On 4 cores with 4 processes: 354.5/s by the prediction."
    assert sentences(answered(rates, **BUSY)) == [more]
    limited = replace(QUESTION, memory_mib=100.0)  # a process has 30 MiB
    fewer = "On 4 cores with 3 processes: 285.0/s by the prediction."
    assert sentences(answered(rates, question=limited, **BUSY)) == [fewer]


def test_a_prediction_that_is_wrong_here_says_nothing_about_other_machines() -> None:
    found = answered({ONE: 95.0, TWO: 130.0}, **BUSY)
    assert "do not rely on predictions here" in " ".join(changes.prediction(found))
    assert sentences(found) == []


def test_the_highest_rate_without_a_cause_is_reported() -> None:
    found = answered({ONE: 24.0, TWO: 48.0}, BLOCKED, **{**IDLE, "alone_s": 0.04})
    assert [cause.kind for cause in found.causes] == ["loop_blocked"]
    limit = "then the number of users is the limit."
    assert sentences(found) == [f"Without the blocked event loop, at most 625.0/s: {limit}"]


def test_a_limit_of_the_gil_is_over_in_a_free_threaded_python() -> None:
    wsgi = replace(QUESTION, kinds=("wsgi",))
    figures = {**BUSY, "gil_utilisation": 0.95}
    rates = {GTHREAD: 95.0, MORE_GTHREAD: 130.0}
    own = Application("wsgi", 1)
    found = answered(rates, own, wsgi, **figures)
    assert "gil_saturated" in [cause.kind for cause in found.causes]
    without, free_threaded = sentences(found)
    assert without.startswith("Without the limit of the GIL, at most 172.7/s: then the CPU of 2 ")
    assert free_threaded.startswith("In a free-threaded Python")


def test_an_answer_that_the_users_limit_asks_for_more() -> None:
    [more] = sentences(answered({ONE: 240.0, TWO: 241.0}, **{**IDLE, "alone_s": 0.1}))
    assert more.startswith("With more users the rate is higher")


@pytest.mark.parametrize("figures", [{}, {**BUSY, "others_cpu": 0.6}])
def test_without_a_certain_probe_there_is_no_prediction(figures: dict[str, float]) -> None:
    plan = planned(ONE, TWO)
    alone = records(plan, {0: 95.0}, block=0, **figures) if figures else []
    found = choice.evaluate(QUESTION, plan, [*alone, *records(plan, {0: 50.0, 1: 100.0})])
    assert found.probe is None
    assert found.chosen.prediction is None
    assert [*changes.prediction(found), *changes.sentences(found)] == []
    values = answer_json.as_dict(found)
    assert values["predicted_rate"] is None
    assert values["alone_s"] is None


def test_a_probe_alone_is_not_compared_with_itself() -> None:
    plan = planned(ONE)
    found = choice.evaluate(QUESTION, plan, records(plan, {0: 50.0}, block=0, **BUSY))
    assert found.probe is not None
    assert [*changes.prediction(found)] == []
