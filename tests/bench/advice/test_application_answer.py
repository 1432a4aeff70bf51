"""The answer for an application: chosen by measured rates, in 30 lines, and as JSON."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offload.bench.advice.application import choice, question_file, sizes
from offload.bench.advice.application.answer import ApplicationAnswer, Option
from offload.bench.advice.application.question_file import Question
from offload.bench.advice.application.sizes import Size
from offload.bench.planning.plan import Plan
from offload.bench.records.application import Application, Route
from offload.bench.records.record import LONG, WINDOW, Record
from offload.bench.stats.estimate import Estimate
from offload.errors import MachineError, RunError, StorageError
from offload.registry import catalog
from offload.reports.advice.application import answer_json, answer_text, deployment
from offload.suites import Case, Request
from tests.records import changed, new_record

WORK = "app=shop.web:app"
CASE = Case("uvicorn_httptools", WORK, request=Request("/quote/7"))
QUESTION = Question(WORK, ("asgi",), 25, 2, name="app")
STEADY = (1.0, 1.01, 0.99)
Sized = tuple[str, Size]
ONE: Sized = ("uvicorn_httptools", Size(1))
TWO: Sized = ("uvicorn_workers", Size(2))
FOUR: Sized = ("uvicorn_workers", Size(4))
GRANIAN: Sized = ("granian_asgi", Size(2))


def planned(*sized: Sized) -> Plan:
    return Plan("advise", tuple(sizes.with_size(CASE, *each) for each in sized), 1, None, True)


OWN = Application("asgi", 1, worker_pss_mib=30.0, worker_private_mib=20.0)


def records(
    plan: Plan, rates: Mapping[int, float], block: int = 1, own: Application = OWN, **values: Any
) -> list[Record]:
    """Return a window of each case in three rounds of a block."""
    return [
        replace(
            changed(
                new_record(plan.cases[place], "run"),
                **{"kind": WINDOW, "block": block, "round": number, "place": place, "quick": True},
                **{"rate": rate * factor, "completed": 10, **values},
            ),
            application=own,
        )
        for place, rate in rates.items()
        for number, factor in enumerate(STEADY, start=1)
    ]


def answered(rates: Mapping[Sized, float], **values: Any) -> ApplicationAnswer:
    plan = planned(*rates)
    return choice.evaluate(QUESTION, plan, records(plan, dict(enumerate(rates.values())), **values))


def names(found: Sequence[Option]) -> list[tuple[str, int]]:
    return [(each.case.server, each.size.processes) for each in found]


def test_the_fastest_is_chosen_and_a_larger_size_gains_nothing() -> None:
    found = answered({ONE: 50.0, TWO: 100.0, FOUR: 100.5, GRANIAN: 80.0})
    assert names([found.chosen]) == [("uvicorn_workers", 2)]
    assert (found.sure, found.tie) == ("sure", ("uvicorn_workers",))
    assert found.gains_nothing_beyond
    assert names(found.others) == [("uvicorn_workers", 4), ("granian_asgi", 2), (ONE[0], 1)]
    said = answer_text.text(found)
    assert "Size: A larger size than 2 processes gains nothing." in said
    assert "uvicorn --workers 2 --loop uvloop --http httptools shop.web:app" in said


def test_a_tie_is_decided_by_few_processes_and_usual_servers() -> None:
    found = answered({GRANIAN: 100.0, TWO: 100.0, ONE: 99.0})
    assert names([found.chosen]) == [("uvicorn_httptools", 1)]
    assert found.sure == "tie" and set(found.tie) == {"uvicorn_httptools", TWO[0], GRANIAN[0]}


def test_servers_of_different_blocks_are_compared_by_way_of_a_common_one() -> None:
    plan = planned(ONE, TWO, FOUR)
    found = choice.evaluate(
        QUESTION,
        plan,
        [*records(plan, {0: 50.0, 1: 100.0}), *records(plan, {1: 110.0, 2: 220.0}, block=2)],
    )
    assert names([found.chosen]) == [("uvicorn_workers", 4)]
    shares = {each.case.server + str(each.size.processes): each for each in found.others}
    assert shares["uvicorn_httptools1"].compared is None
    assert shares["uvicorn_httptools1"].share == pytest.approx(0.25, rel=0.01)
    assert not found.larger and "A larger one was not measured" in answer_text.text(found)


def test_without_compared_rounds_the_probe_is_the_answer() -> None:
    plan = planned(ONE)
    found = choice.evaluate(QUESTION, plan, records(plan, {0: 50.0}, block=0))
    assert (names([found.chosen]), found.others, found.sure) == ([(ONE[0], 1)], (), "likely")


def test_other_sizes_are_listed_if_no_other_server_was_measured() -> None:
    found = answered({TWO: 50.0, FOUR: 30.0})
    rows = [line.split() for line in answer_text.text(found).splitlines() if TWO[0] in line]
    assert [row[1] for row in rows if row[0] == TWO[0]] == ["2", "4"]


def test_the_cause_is_that_of_one_process_and_may_be_over_in_the_advised_size() -> None:
    routes = (Route("GET /quote/{n}", 50, 0.5, 0.001, 0.04, 0.05),)
    own = Application("asgi", 1, 50, 0.5, 0.001, routes=routes)
    values = {"alone_s": 0.04, "cores_used": 0.1, "elapsed_s": 1.0, "cpu_ms_per_request": 1.0}
    plan = planned(ONE, TWO)
    found = choice.evaluate(
        QUESTION,
        plan,
        [
            *records(plan, {0: 24.0}, block=0, own=own, **values),
            *records(plan, {0: 24.0, 1: 48.0}, own=own, **values),
        ],
    )
    assert [cause.kind for cause in found.causes] == ["loop_blocked"]
    assert [cause.kind for cause in found.remaining] == ["loop_blocked"]
    said = answer_text.text(found)
    assert "GET /quote/{n} runs on it for 40 ms" in said.replace("\n", " ")
    values_ = json.loads(answer_json.as_json(found))
    assert values_["causes"][0] == {
        **{"kind": "loop_blocked", "value": 0.04, "threshold": 0.02, "route": "GET /quote/{n}"},
        **{"module": None, "limit": None, "gil_s": None},
    }


def test_a_server_that_failed_in_its_last_rounds_is_not_chosen() -> None:
    plan = planned(ONE, TWO)
    windows = records(plan, {0: 50.0, 1: 100.0})
    died = [changed(each, rate=None, problem="it died") for each in records(plan, {1: 1.0}, 2)]
    found = choice.evaluate(QUESTION, plan, [*windows, *died])
    assert names([found.chosen, *found.others]) == [("uvicorn_httptools", 1)]
    assert "Not measured: it died." in answer_text.text(found)
    once = choice.evaluate(QUESTION, plan, [*windows, *died[:1]])  # then the others count
    assert names([once.chosen]) == [("uvicorn_workers", 2)]


def test_requests_that_failed_under_load_are_a_warning() -> None:
    found = answered({ONE: 50.0, TWO: 100.0}, failed={"5xx": 5})  # and 10 completed
    warning = "33.3 % of the requests to uvicorn_workers with 2 processes failed under load"
    assert f"Warning: {warning}" in " ".join(answer_text.text(found).split())
    assert answer_json.as_dict(found)["flags"][0].startswith(warning)


def test_a_disturbed_measurement_is_no_advice() -> None:
    found = answered({ONE: 50.0, TWO: 100.0}, others_cpu=0.6)
    said = answer_text.text(found)
    assert (found.sure, answer_text.deployment_command(found)) == ("disturbed", None)
    first = "No advice for app=shop.web:app, GET /quote/7: "
    assert said.startswith(f"{first}other processes used 60 %")
    assert "uvicorn --workers" not in said


def test_a_server_that_needs_too_much_memory_is_not_chosen() -> None:
    plan = planned(ONE, TWO)
    windows = records(plan, {0: 50.0, 1: 100.0})
    found = choice.evaluate(replace(QUESTION, memory_mib=40.0), plan, windows)
    assert names([found.chosen]) == [("uvicorn_httptools", 1)]
    smallest = r"no measured server fits into 20 MiB: uvicorn_httptools needs 30"
    with pytest.raises(RunError, match=smallest):
        choice.evaluate(replace(QUESTION, memory_mib=20.0), plan, windows)


def test_more_memory_than_the_limit_is_a_warning() -> None:
    plan = planned(ONE, TWO)
    load = changed(new_record(plan.cases[1], "run"), kind=LONG, place=1, memory_pss_mib=75.0)
    windows = [*records(plan, {0: 50.0, 1: 100.0}), load]
    found = choice.evaluate(replace(QUESTION, memory_mib=70.0), plan, windows)
    warning = "uvicorn_workers with 2 processes used 75 MiB, more than the limit of 70 MiB."
    assert answer_text.warnings(found) == [warning]


def test_text_fits_into_30_lines_of_100_columns_whatever_was_measured() -> None:
    every = {(name, Size(2, 8)): 15000.0 + n for n, name in enumerate(sizes.ORDER)}
    plan = planned(*every)
    windows = records(plan, dict(enumerate(every.values())))
    loads = [
        replace(
            changed(
                new_record(plan.cases[-1], "run"),
                **{"kind": LONG, "place": len(every) - 1, "response_p95_s": 0.01},
            ),
            application=OWN,
        )
    ] * 2
    figures = {"alone_s": 0.001, "cpu_ms_per_request": 0.1, "driver_cpu_s": 0.001}
    probed = records(plan, {0: 8000.0}, block=0, **figures)
    found = choice.evaluate(replace(QUESTION, p99_s=0.1), plan, [*probed, *windows, *loads])
    assert "Prediction: " in answer_text.text(found)
    lines = answer_text.text(found, Path("/home/user/results/20260101-000000-advise")).splitlines()
    assert len(lines) <= 30 and max(map(len, lines)) <= 100
    assert lines[0].startswith("Use ")


def test_json_has_the_keys_of_a_functions_answer() -> None:
    values = json.loads(answer_json.as_json(answered({ONE: 50.0, TWO: 100.0})))
    for_functions = "task strategy workers rate rate_low rate_high p95_s memory_mib tie"
    assert {*for_functions.split(), "alternatives", "sure", "why", "next", "flags"} <= {*values}
    assert (values["strategy"], values["workers"], values["processes"]) == (TWO[0], 2, 2)
    assert values["deployment"] == (
        "uvicorn --workers 2 --loop uvloop --http httptools shop.web:app"
    )
    assert values["alternatives"][0]["ratio"] == pytest.approx(0.5, rel=0.01)


def test_a_question_is_read_as_it_was_saved(tmp_path: Path) -> None:
    question_file.save(QUESTION, tmp_path)
    assert question_file.load(tmp_path) == QUESTION
    (tmp_path / "advice.json").write_text('{"probe": {}}')
    with pytest.raises(StorageError, match="is not readable by this version"):
        question_file.load(tmp_path)
    with pytest.raises(StorageError, match="check permissions and disk space"):
        question_file.save(QUESTION, tmp_path / "missing")


OPTION = Option(CASE, Estimate(None, None, None, 0, None, False), None)


@pytest.mark.parametrize("server", catalog.servers_of())
@pytest.mark.parametrize("app", ["app=shop.web:app", "app=shop.web:create_app()", "app=settings"])
def test_each_server_has_a_command_line(server: str, app: str) -> None:
    case = replace(sizes.with_size(CASE, server, Size(2, 8)), path="/srv/my shop")
    name = None if app == "app=settings" else app.partition(":")[2].removesuffix("()")
    question = replace(QUESTION, work=app, name=name)
    line = deployment.command(question, replace(OPTION, case=case))
    assert line is not None and line.startswith("PYTHONPATH='/srv/my shop' ")
    target = "shop.web:" if name else f"django.core.{catalog.find_server(server).serves}:get_"
    assert target in line and "{" not in line
    assert ("DJANGO_SETTINGS_MODULE=settings" in line) is (name is None)
    is_called = any(word in line for word in ("--factory", "--call", "()'"))
    assert is_called is (name != "app")


@pytest.mark.parametrize("server", catalog.servers_of())
@pytest.mark.parametrize("call", ["", "()"])
def test_a_file_with_any_name_is_one_word_of_the_command(server: str, call: str) -> None:
    case = sizes.with_size(CASE, server, Size(2, 8))
    work = f"app=/srv/my shop; exit.py:app{call}"
    question = replace(QUESTION, work=work, name="app")
    line = deployment.command(question, replace(OPTION, case=case))
    assert line is not None
    words = shlex.split(line)
    assert words[0] == "PYTHONPATH=/srv" and words[-1].startswith("my shop; exit:app")


def test_a_command_is_wrapped_so_that_a_shell_still_reads_it() -> None:
    line = f"PYTHONPATH=/srv gunicorn {'--workers 2 ' * 12}shop.web:app"
    parts = deployment.wrap(line, 100).split(" \\\n")
    assert len(parts) > 1 and max(map(len, parts)) <= 98
    assert " ".join(part.strip() for part in parts) == line


def test_sizes_are_those_of_the_servers_settings() -> None:
    for name in catalog.servers_of():
        entry = catalog.find_server(name)
        case = sizes.with_size(CASE, name, Size(2, None if entry.workers_are is None else 8))
        assert set(case.settings) <= set(entry.settings)
        expected = 2 if sizes.has_processes(entry) else 1
        assert sizes.size_of(case).processes == expected
    gunicorn = sizes.with_size(CASE, "gunicorn_gthread", Size(2, 8))
    assert gunicorn.settings == {"workers": 8, "processes": 2}
    assert sizes.with_size(CASE, "gunicorn_sync", Size(3)).settings == {"workers": 3}


def test_sizes_around_the_best_one_halve_and_double_and_use_one_process() -> None:
    around = sizes.sizes_around("gunicorn_gthread", Size(2, 8), 16, False)
    assert {Size(2, 4), Size(2, 16), Size(1, 8), Size(4, 8), Size(1, 16)} == {*around}
    assert {*sizes.sizes_around("uvicorn_workers", Size(2), 25, False)} == {Size(1), Size(4)}
    assert Size(8) in sizes.sizes_around("uvicorn_workers", Size(2), 25, True)
    assert sizes.sizes_around("hypercorn", Size(1), 25, True) == []
    assert dict(sizes.first_sizes(["uvicorn_workers", "waitress"], 2, 16, most=1)) == {
        "uvicorn_workers": Size(1),
        "waitress": Size(1, 16),
    }
    assert sizes.larger("uvicorn_workers", Size(16)) is None
    assert sizes.larger("waitress", Size(1, 8)) == Size(1, 16)


def test_a_machine_without_any_server_reports_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sizes.importlib.util, "find_spec", lambda _: None)  # type: ignore[attr-defined]
    with pytest.raises(MachineError, match="no server here can serve WSGI: gunicorn missing"):
        sizes.servers(["wsgi"], None)


def test_a_larger_size_that_may_be_faster_is_not_said_to_gain_nothing() -> None:
    plan = planned(TWO, FOUR)
    noisy = [
        changed(each, rate=(each.result.rate or 0.0) * factor)
        for each, factor in zip(
            records(plan, {0: 100.0, 1: 97.0}), itertools.cycle((0.7, 1.3, 1.0, 1.2)), strict=False
        )
    ]
    found = choice.evaluate(QUESTION, plan, noisy)
    assert found.chosen.size.processes == 2 and not found.gains_nothing_beyond
    assert answer_json.as_dict(found)["gains_nothing_beyond"] is None
    assert "A larger size than 2 processes may be faster" in answer_text.text(found)
