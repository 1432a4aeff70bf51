"""Lines and summary of a watch: unknown values, and the meaning of the figures."""

from __future__ import annotations

import json

import pytest

from offload.engine.gil_location import NOT_PYTHON, Unreadable
from offload.studies.watch import document as report
from offload.studies.watch import summary as summaries
from offload.studies.watch.diagnosis import Signs
from offload.studies.watch.gil_meter import OFF, ON, UNREADABLE, GilUse
from offload.studies.watch.readings import ProcessReading, Reading, TreeReading
from offload.studies.watch.response_time import Response
from offload.studies.watch.summary import Finding, Summary
from offload.studies.watch.usage import ProcessUse

SHELL = GilUse(UNREADABLE, why=Unreadable(NOT_PYTHON, "pid 7 (sh) is not a Python process"))


def process(pid: int, cpu: float | None, gil: GilUse) -> ProcessReading:
    return ProcessReading(ProcessUse(pid, "python", cpu, 20.0, 3, 10.0, 1.0), gil)


def on(rho: float | None, late: float = 0.0) -> GilUse:
    return GilUse(ON, "3.14.0", 1, rho, 250, late)


def reading(
    *processes: ProcessReading, response: Response | None = None, elapsed_s: float = 1.0
) -> Reading:
    cpu = sum(each.use.cpu or 0.0 for each in processes)
    rhos = [each.gil.rho for each in processes if each.gil.rho is not None]
    tree = TreeReading(
        processes=len(processes),
        cpu=cpu,
        pss_mib=20.0,
        threads=3,
        switches_voluntary=10.0,
        switches_involuntary=None,
        rho=max(rhos, default=None),
        gils_held=sum(rhos) if rhos else None,
    )
    responses = () if response is None else (response,)
    return Reading(1e9, elapsed_s, tree, processes, responses)


def summed(*processes: ProcessReading, count: int = 3) -> Summary:
    summary = Summary()
    for number in range(1, count + 1):
        summary.add(reading(*processes, elapsed_s=number))
    return summary


@pytest.mark.parametrize(
    ("rho", "cpu", "cores", "kind"),
    [
        (0.97, 1.0, 4, summaries.SATURATED_GIL),
        (0.97, 1.0, 1, summaries.NO_CORE_FREE),
        (0.97, 0.4, 4, summaries.HELD_WITHOUT_CPU),
        (0.03, 1.8, 4, summaries.RELEASES),
        (0.03, 0.04, 4, summaries.WAITS),
        (0.5, 0.6, 4, None),
        (0.03, 0.3, 4, None),
    ],
)
def test_a_finding_follows_from_rho_and_cpu(
    rho: float, cpu: float, cores: int, kind: str | None
) -> None:
    found = summed(process(5, cpu, on(rho)), process(7, 0.0, SHELL)).finding(cores)
    assert (None if found is None else found.kind) == kind
    assert found is None or found.pid == 5


def test_a_finding_is_of_the_process_whose_gil_is_held_most() -> None:
    found = summed(process(5, 0.0, on(0.0)), process(6, 1.0, on(1.0))).finding(4)
    assert found is not None and (found.pid, found.rho) == (6, 1.0)


@pytest.mark.parametrize("late", [0.1, 0.6])
def test_figures_of_late_samples_mean_nothing(late: float) -> None:
    summary = summed(process(5, 1.0, on(0.97, late)))
    assert (summary.finding(4) is None) is (late > 0.25)
    assert ("~: more than 25 % of the samples" in report.text(summary, None, Signs())) is (
        late > 0.25
    )


def test_a_process_that_ran_for_a_while_is_judged_by_its_own_readings() -> None:
    summary = summed(process(5, 1.0, on(1.0, late=0.5)), process(6, 1.0, on(None)))
    for number in range(4, 20):
        summary.add(reading(process(6, 1.0, on(None)), elapsed_s=number))
    assert summary.finding(4) is None  # all readings of the other one were unreliable


def test_two_seconds_are_too_few_for_a_sentence() -> None:
    assert summed(process(5, 1.0, on(0.97)), count=2).finding(4) is None


def test_the_sentence_of_each_finding_is_plain() -> None:
    saturated = report.sentence(Finding(summaries.SATURATED_GIL, 123, 0.97, 1.0, 4))
    assert saturated.startswith("The GIL of pid 123 is held 97 % of the time: more threads gain")
    none = summed(process(9, 3.2, GilUse(OFF, "3.14.0"))).finding(4)
    assert none is not None
    assert report.sentence(none) == (
        "Pid 9 has no GIL, so its threads can use several cores; they used 3.20 on average."
    )
    for kind in report.SENTENCES:
        words = report.sentence(Finding(kind, 1, 0.5, 0.5, 2))
        assert words.endswith(".") and "{" not in words and "None" not in words


def test_what_is_unknown_is_a_dash_and_null_and_never_zero() -> None:
    one = reading(process(7, None, SHELL))
    assert report.line(one, False).split() == ["1", "s", "0.00", "20.0", "3", "10", "-", "-"]
    written = json.loads(report.json_line(one))
    [found] = written["processes"]
    assert (found["cpu"], found["rho"], found["gil"]) == (None, None, "unreadable")
    assert found["gil_why"] == "pid 7 (sh) is not a Python process"
    assert written["tree"]["switches_involuntary"] is None
    ended = json.loads(report.json_summary(summed(process(7, None, SHELL)), None, Signs()))
    assert ended["processes"][0]["cpu"] == {"mean": None, "max": None}
    assert ended["sentence"] is None


def test_a_python_without_a_gil_reports_it_instead_of_a_rho() -> None:
    assert "no GIL" in report.line(reading(process(9, 3.2, GilUse(OFF, "3.14.0"))), False)


def test_a_line_has_at_most_100_characters_however_many_processes() -> None:
    many = [process(4_000_000 + n, 1.0, on(0.9, 0.5)) for n in range(64)]
    line = report.line(reading(*many, response=Response(99.9, is_pending=True)), True)
    assert len(line) <= 100
    assert "~0.90" in line and "> 99900.0 ms" in line


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (Response(0.0042, 200), "4.2 ms"),
        (Response(0.1, 503), "status 503"),
        (Response(1.0, error="Connection refused"), "failed"),
        (None, " -"),
    ],
)
def test_a_response_is_its_time_or_its_failure(response: Response | None, words: str) -> None:
    assert report.line(reading(process(5, 1.0, on(0.5)), response=response), True).endswith(words)


def test_the_summary_counts_failed_requests_apart() -> None:
    summary = Summary()
    for response in (Response(0.002, 200), Response(0.004, 200), Response(0.1, 500), None):
        summary.add(reading(process(5, 1.0, on(0.5)), response=response))
    assert "response: 3.0 ms (4.0 ms) of 2 requests, 1 failed" in report.text(
        summary, None, Signs()
    )


def test_the_summary_has_the_20_processes_that_ran_longest() -> None:
    summary = summed(process(1, 1.0, on(0.5)))
    for pid in range(2, 25):
        summary.add(reading(process(pid, 1.0, on(0.5))))
    text = report.text(summary, None, Signs())
    assert text.count(" python ") == 20
    assert "\n1 python " in text
    assert "and 4 processes that ran for a shorter time" in text
