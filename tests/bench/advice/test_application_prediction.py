"""The predicted rate of an application: its capacities, its text, and what would change it."""

from __future__ import annotations

import json

import pytest

from offload.bench.advice.application import choice
from offload.bench.advice.application.answer import ApplicationAnswer
from offload.bench.advice.application.prediction import Limit, OneProcess, Prediction
from offload.bench.advice.application.sizes import Size
from offload.bench.records.application import Application, Route
from offload.reports.advice.application import answer_json, answer_text, changes
from tests.bench.advice.test_application_answer import ONE, QUESTION, TWO, planned, records

USERS, CORES = 25, 2
BLOCKED = Application(
    "asgi", 1, 50, 0.5, 0.001, routes=(Route("GET /", 50, 0.5, 0.001, 0.04, 0.05),)
)
BUSY = {"alone_s": 0.01, "cores_used": 1.0, "elapsed_s": 1.0, "cpu_ms_per_request": 10.0}


def answered(
    rates: tuple[float, float], own: Application | None = None, **figures: float
) -> ApplicationAnswer:
    """Return the answer for one and two processes; the first was also measured alone."""
    plan, more = planned(ONE, TWO), {} if own is None else {"own": own}
    alone = records(plan, {0: rates[0]}, block=0, **more, **figures)
    windows = records(plan, dict(enumerate(rates)), **more, **figures)
    return choice.evaluate(QUESTION, plan, [*alone, *windows])


@pytest.mark.parametrize(
    ("probe", "server", "size", "expected"),
    [
        # a blocked loop: each process has its own limit
        (OneProcess(25.0, 0.04, 0.001), *TWO, Prediction(50.0, Limit.PROCESS)),
        # 10 ms of CPU: 1.9 of 2 cores are left
        (OneProcess(99.0, 0.01, 0.01), "uvicorn_workers", Size(4), Prediction(190.0, Limit.CPU)),
        # a wait of 0.1 s: 25 users, and 8 threads
        (OneProcess(240.0, 0.1, 0.001), *TWO, Prediction(250.0, Limit.USERS)),
        (OneProcess(240.0, 0.1, 0.001), "waitress", Size(1, 8), Prediction(80.0, Limit.WORKERS)),
        (OneProcess(240.0, 0.1, 0.001), "gunicorn_sync", Size(4), Prediction(40.0, Limit.WORKERS)),
        # unknown figures: only the rate of a process is left
        (OneProcess(240.0, None, None), *TWO, Prediction(480.0, Limit.PROCESS)),
    ],
)
def test_the_smallest_capacity_is_the_predicted_rate(
    probe: OneProcess, server: str, size: Size, expected: Prediction
) -> None:
    found = probe.predict(server, size, USERS, CORES)
    assert found.rate == pytest.approx(expected.rate)
    assert found.limit is expected.limit


def test_without_the_limit_of_a_process_the_others_are_left() -> None:
    probe = OneProcess(25.0, 0.04, 0.001)
    found = probe.without_process_limit(*TWO, USERS, CORES)
    assert found == Prediction(625.0, Limit.USERS)
    unknown = OneProcess(25.0, 0.04, None)
    assert unknown.without_process_limit(*TWO, USERS, CORES) is None


def test_an_answer_compares_its_prediction_with_the_measured_rate() -> None:
    found = answered((95.0, 180.0), **BUSY)
    assert found.probe == OneProcess(pytest.approx(95.0), 0.01, 0.01)
    said = " ".join(answer_text.text(found).split())
    expected = "190/s for uvicorn_workers with 2 processes, 6 % above the measured rate. "
    assert f"Prediction: {expected}One process alone reached 95/s, with 10 ms of CPU" in said
    values = json.loads(answer_json.as_json(found))
    assert (values["predicted_rate"], values["limit"]) == (pytest.approx(190.0), "cpu")
    assert values["alternatives"][0]["predicted_rate"] == pytest.approx(95.0)
    assert values["changes"] == [*changes.sentences(found)]


def test_more_cores_change_an_answer_that_the_cpu_limits() -> None:
    more = "On 4 cores with 4 processes: 380/s by the prediction."
    assert [*changes.sentences(answered((95.0, 180.0), **BUSY))] == [more]


def test_the_highest_rate_without_a_cause_is_reported() -> None:
    values = {"alone_s": 0.04, "cores_used": 0.1, "elapsed_s": 1.0, "cpu_ms_per_request": 1.0}
    found = answered((24.0, 48.0), BLOCKED, **values)
    assert [cause.kind for cause in found.causes] == ["loop_blocked"]
    without = "Without this cause, at most 625/s: then the number of users is the limit."
    assert [*changes.sentences(found)] == [without]


def test_an_answer_that_the_users_limit_asks_for_more() -> None:
    values = {"alone_s": 0.1, "cores_used": 0.1, "elapsed_s": 1.0, "cpu_ms_per_request": 0.5}
    found = answered((248.0, 249.0), **values)
    [more] = changes.sentences(found)
    assert more.startswith("The rate increases with the number of users")


def test_without_a_probe_there_is_no_prediction() -> None:
    plan = planned(ONE, TWO)
    found = choice.evaluate(QUESTION, plan, records(plan, {0: 50.0, 1: 100.0}))
    assert found.probe is None and found.chosen.prediction is None
    assert [*changes.prediction(found), *changes.sentences(found)] == []
    values = answer_json.as_dict(found)
    assert values["predicted_rate"] is None and values["alone_s"] is None
