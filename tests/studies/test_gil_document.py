"""The GIL advice follows the rules of docs/gil.rst, and contains nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offload.documents.text import render
from offload.engine import decisions
from offload.engine.decisions import Verdict
from offload.engine.figures import ComparedCases, Comparison
from offload.engine.record import WINDOW
from offload.errors import Flag
from offload.studies import gil as gil_study
from offload.studies.gil import advice, figures
from offload.studies.gil import document as gil_document
from offload.studies.gil.cost import GilCost
from offload.studies.gil.direct_calls import SpeedUp
from offload.suites import Case
from tests.commands import fab_here
from tests.records import changed, record_of

RECORD = record_of(
    "run",
    "threads",
    "xml",
    8,
    "run_server:3,xml",
    "2026-01-01T00:00:00",
    kind=WINDOW,
    completed=100,
    slots=4,
    task_s=4.0,
    task_cpu_s=1.0,
    task_queued_s=0.0,
    alone_task_cpu_s=1.0,
    alone_blocked_s=0.0,
    gil_hold=0.95,
    gil_utilisation=0.99,
    gil_switches=300,
    gil_hold_p75_s=0.0052,
    loop_lag_p99_ms=30.0,
    environment={"cores": 4},
    interpreter={"python": "3.11.7", "gil_enabled": True},
)
KEYS = "h rho gamma kappa s_threads s_processes cost cost_low cost_high cost_direct loop_lag_p99_ms"


CLEAR = Verdict(decisions.FASTER, 4.0, 2.0, 5.0, 5, 0, 0.001)
UNRESOLVED = Verdict(decisions.UNRESOLVED, 1.1, 0.8, 1.4, 10, 30, 0.3)


def cost(
    switches: float = 3.0,
    verdict: Verdict = CLEAR,
    **changes: Any,
) -> GilCost:
    record = changed(RECORD, **changes)
    pair = ComparedCases(
        Case("threads", "noop_sync"),
        Case("processes", "noop_sync"),
        Comparison(verdict),
        (None, None),
        (record,),
        Path("compare"),
    )
    return GilCost(
        record,
        figures.gil_figures(record),
        pair,
        SpeedUp(1.0, switches, True),
        SpeedUp(4.0, 1.0, True),
    )


def text_of(found: GilCost) -> str:
    return render(gil_document.document(found), width=10_000)


def test_json_has_the_documented_figures() -> None:
    values = gil_document.values(cost())
    expected = (0.95, 0.99, 0.75, 1.0, 1.0, 4.0, 0.75, 0.5, 0.8, 0.75, 30.0)
    assert [values[key] for key in KEYS.split()] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gil_hold": 0.05, "loop_lag_p99_ms": 1.0}, "use threads"),
        ({"gil_hold": 0.2}, "threads still use several cores"),
        ({"gil_hold": 0.3}, "processes, interpreters or a free-threaded build are probably faster"),
        ({"gil_hold": None}, "h is unknown"),
        ({}, "move it out of the loop's process"),
        ({"switches": 51.0}, "several may be slower than one"),
        ({"task_cpu_s": 2.1}, "several may be slower than one"),
    ],
)
def test_the_advice_follows_from_the_figures(changes: dict[str, Any], words: str) -> None:
    assert words in text_of(cost(verdict=UNRESOLVED, **changes))


@pytest.mark.parametrize(
    ("word", "hold", "expected"),
    [
        (decisions.SLOWER, 0.9, "A hop to a process costs more than the GIL"),
        (decisions.FASTER, 0.0, "Threads lose: use processes"),
        (decisions.FASTER, None, "Threads lose: use processes"),
        (decisions.TINY, 0.9, "Threads and processes differ too little to matter"),
    ],
)
def test_pairs_that_are_resolved_decide_and_not_h(
    word: str, hold: float | None, expected: str
) -> None:
    found = cost(verdict=replace(UNRESOLVED, outcome=word, ratio=1.4), gil_hold=hold)
    assert next(advice.task_sentences(found)).startswith(expected)


def test_a_speed_up_below_one_is_worded_as_one_above() -> None:
    [line] = [line for line in text_of(cost()).splitlines() if line.startswith("S threads")]
    assert line.split(maxsplit=3) == ["S", "threads", "1.00x", "rate of 4 threads over one thread"]


@pytest.mark.parametrize(
    ("each", "words"),
    [
        ((0.6, 0.58), None),
        ((0.02, 0.0), None),
        ((0.9, 0.1), "unevenly, their GILs are held for 90 % and 10 % of it: use reuse_port=yes."),
        ((0.8,) * 10 + (0.2,), "are held for 20 % to 80 % of it in 11 processes: use reuse_port"),
    ],
)
def test_the_share_of_each_process_is_shown_and_uneven_ones_are_named(
    each: tuple[float, ...], words: str | None
) -> None:
    sizes = {"processes": len(each), "workers": 4}
    found = cost(each=each, settings=sizes, workers=4)
    text, values = text_of(found), gil_document.values(found)
    assert (values["rho_each"], values["processes"]) == ([*each], len(each))
    assert f"Measured: xml, {len(each)} processes of 4 threads, Python" in text
    assert "\nrho each" in text
    assert (words or "unevenly") in text if words else "unevenly" not in text


def test_one_process_has_no_share_of_each() -> None:
    assert "rho each" not in text_of(cost())
    assert gil_document.values(cost())["rho_each"] == []


def test_threads_that_lose_in_several_processes_need_more_processes() -> None:
    found = cost(settings={"processes": 2, "workers": 4}, workers=4)
    assert "Threads in 2 processes lose: use more processes with fewer threads." in text_of(found)
    unresolved = cost(verdict=UNRESOLVED, settings={"processes": 2}, gil_hold=0.4, slots=2)
    assert "threads still use several cores" in text_of(unresolved)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("processes=0", "processes='0' is not a whole number from 1 to 64"),
        ("processes=8,workers=64", "8 processes of 64 threads are 512 threads: use at most 256"),
    ],
)
def test_a_wrong_size_is_one_line(words: str, message: str) -> None:
    said = fab_here(f"gil:noop_sync,{words}")
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1)
    assert message in said.stderr


def test_threads_of_several_processes_are_compared_with_as_many_worker_processes() -> None:
    options = gil_study.Options("noop_sync", workers=8, processes=2)
    threads, processes = gil_study.STUDY.plan(options).cases
    assert threads.settings == {"workers": 8, "processes": 2}
    assert (processes.server, processes.settings) == ("processes", {"workers": 16})
    assert threads.users == processes.users == 32


def test_one_worker_is_no_workers() -> None:
    text = text_of(cost(slots=1))
    assert "\nMeasured: xml, 1 worker, Python" in text
    assert "  rate of 1 thread over one thread\n" in text
    assert "  rate of 1 process over one thread\n" in text


@pytest.mark.parametrize(
    ("lag_ms", "hold_s", "words"),
    [
        (30.0, 0.0052, "event loop waiting: move"),
        (6.0, 0.02, "waiting in calls that do not release the GIL: move"),
        (30.0, 0.02, "waiting in calls that do not release the GIL: move"),
        (30.0, None, "event loop waiting: move"),
    ],
)
def test_a_long_hold_has_the_same_advice_as_a_late_loop(
    lag_ms: float, hold_s: float | None, words: str
) -> None:
    found = cost(verdict=UNRESOLVED, loop_lag_p99_ms=lag_ms, gil_hold_p75_s=hold_s)
    assert words in text_of(found)


@pytest.mark.parametrize("alone", [{"slots": 1}, {"gil_utilisation": 0.5}])
def test_a_hold_that_no_thread_requested_to_end_is_no_call_into_c(alone: dict[str, Any]) -> None:
    found = cost(verdict=UNRESOLVED, loop_lag_p99_ms=6.0, gil_hold_p75_s=0.015, **alone)
    assert "waiting" not in " ".join(advice.task_sentences(found))
    found = cost(verdict=UNRESOLVED, loop_lag_p99_ms=6.0, gil_hold_p75_s=0.025, **alone)
    assert "do not release the GIL" in " ".join(advice.task_sentences(found))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (
            decisions.SAME,
            "differ too little to matter, but the task keeps the event loop waiting: ",
        ),
        (
            decisions.TINY,
            "differ too little to matter, but the task keeps the event loop waiting: ",
        ),
        (
            decisions.SLOWER,
            "threads are faster, but the task keeps the event loop waiting, which only ",
        ),
        (
            decisions.UNRESOLVED,
            "as fast as processes, but the task keeps the event loop waiting: ",
        ),
    ],
)
def test_threads_are_not_advised_where_they_keep_the_loop_waiting(word: str, expected: str) -> None:
    found = cost(verdict=replace(UNRESOLVED, outcome=word), gil_hold=0.05)
    sentences = " ".join(advice.task_sentences(found))
    assert (expected in sentences, "use threads" in sentences, sentences.count("move")) == (
        True,
        False,
        1,
    )


@pytest.mark.parametrize(
    ("ratio", "hold", "expected"),
    [
        (
            1.06,
            0.02,
            "The rate in threads is 6 % lower than in processes, but not because of the GIL",
        ),
        (1.06, 0.2, "Threads lose: use processes"),
        (1.2, 0.02, "Threads lose: use processes"),
    ],
)
def test_a_small_loss_of_a_task_that_hardly_holds_the_gil_is_not_its_cost(
    ratio: float, hold: float, expected: str
) -> None:
    verdict = Verdict(decisions.FASTER, ratio, 1.01, 1.3, 10, 0, 0.01)
    assert next(advice.task_sentences(cost(verdict=verdict, gil_hold=hold))).startswith(expected)


@pytest.mark.parametrize("hold_s", [0.001, None])
def test_a_loop_that_is_late_but_not_by_the_gil_is_no_reason_to_leave(hold_s: float | None) -> None:
    free = {"gil_hold": 0.01, "gil_utilisation": 0.1, "gil_hold_p75_s": hold_s}
    sentences = [*advice.task_sentences(cost(verdict=UNRESOLVED, **free))]
    assert sentences[0].endswith("threads are as fast as processes: use threads.")
    assert sentences[1:] == [
        "The event loop was delayed, probably by a lack of CPU, not by the GIL."
    ]


FREE_THREADED = {"python": "3.13.5", "free_threaded_build": True, "gil_enabled": False}
HAS_NONE = (
    "This Python has no GIL: threads use all cores. To measure the cost of a GIL, use another, "
    "such as python=3.13t-gil."
)


@pytest.mark.parametrize(
    ("verdict", "rho", "more"),
    [
        (UNRESOLVED, 0.0, []),
        (UNRESOLVED, None, []),
        (
            CLEAR,
            0.0,
            ["The rate in threads is 75 % lower than in processes, but not because of the GIL."],
        ),
    ],
)
def test_a_python_without_a_gil_has_no_advice_on_the_task(
    verdict: Verdict, rho: float | None, more: list[str]
) -> None:
    free = {"gil_hold": rho, "gil_utilisation": rho, "gil_hold_p75_s": None}
    found = cost(verdict=verdict, interpreter=FREE_THREADED, **free)
    assert [*advice.task_sentences(found)][: 1 + len(more)] == [HAS_NONE, *more]
    assert "use threads" not in text_of(found)
    assert "move" not in text_of(found)


def test_advice_that_does_not_follow_is_omitted() -> None:
    [sentence] = advice.task_sentences(cost(verdict=UNRESOLVED, gil_hold=0.0, loop_lag_p99_ms=1.0))
    assert sentence.endswith("use threads.")


def test_a_disturbed_measurement_has_no_advice() -> None:
    found = cost(verdict=replace(CLEAR, outcome=decisions.DISTURBED))
    flag = Flag("disturbed", "other processes used 50 % of the CPU", "end the other processes")
    cases = replace(found.cases, comparison=replace(found.cases.comparison, disturbed=flag))
    assert [*advice.task_sentences(replace(found, cases=cases))] == [f"No verdict: {flag}."]


def test_an_import_that_turned_the_gil_on_is_reported() -> None:
    facts = {"python": "3.13.5", "free_threaded_build": True, "gil_enabled": True}
    text = text_of(cost(interpreter={**facts, "gil_enabled_by": "lxml.etree"}))
    assert "xml, 4 workers, Python 3.13.5t: importing lxml.etree turned the GIL on" in text


def test_flags_and_failed_loads_are_reported_once_with_the_number_of_windows() -> None:
    found = cost(case_index=0, flags=("others: 31 % of the CPU: end them",))
    quiet = changed(RECORD, case_index=0, flags=())
    failed = changed(quiet, case_index=1, problem="the server ended")
    found = replace(found, cases=replace(found.cases, records=(found.window, quiet, failed)))
    expected = [
        "problem: 4/noop_sync: 1 of 1 loads failed and are left out: the server ended",
        "others: 31 % of the CPU: end them (1 of 3 windows)",
    ]
    assert text_of(found).splitlines()[-2:] == expected
    assert gil_document.values(found)["flags"] == expected
