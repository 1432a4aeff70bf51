"""A whole answer with real servers, its files, and its words."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from offload.cli import runner
from offload.documents import Command, Document
from offload.documents.text import render
from offload.engine import host, journal, workload
from offload.engine.application import Application as ApplicationFacts
from offload.engine.application import Failing, HotLine
from offload.engine.progress import read_progress
from offload.engine.record import LONG, WINDOW
from offload.errors import Flag, RunError
from offload.registry import places
from offload.studies.advise import STUDY, answer, function, race, study
from offload.studies.advise.answer import Answer
from offload.studies.advise.application import Application
from offload.studies.advise.evidence import KeepAlive, Latency, Question
from offload.studies.advise.function import Function
from offload.suites import Case
from tests import ROOT
from tests.commands import fab_here
from tests.installed import require

SHOP = "import time\ndef quote():\n    time.sleep(0.02)\n    return b'1'\n"
Answered = tuple[Answer, Path, list[str]]


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Answered:
    """Advise on a function that waits 20 ms, in a race that is shorter than usual."""
    folder = tmp_path_factory.mktemp("advise")
    (folder / "shop.py").write_text(SHOP)
    reported: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(function, "SERVERS", ("loop", "threads"))
        patch.setattr(race, "PASSES", 1)
        patch.setattr(race, "RATE_S", 1.0)
        case = Case("threads", f"{folder}/shop.py:quote")
        question = Question(rate=50.0, users=8)

        def report(line: str) -> None:
            progress = read_progress(folder / "run")
            reported.append(line if progress is None else f"{progress.step}: {line}")

        found = study.advise(case, question, folder / "run", report, budget_s=30.0)
    return replace(found, disturbed=None), folder / "run", reported


@pytest.mark.server
def test_a_call_that_waits_goes_to_threads_and_the_rate_is_loaded(answered: Answered) -> None:
    found, folder, reported = answered
    assert found.strategy == "threads"
    assert found.best.setup.slots in (2, 4, 8)  # the cheapest ones for 50/s, with 8 users
    assert 60 < (found.best.capacity or 0) < 400
    assert found.required is not None
    assert found.required.rate == 50.0
    kinds = {record.trial.kind for record in journal.read_planned(folder)}
    assert kinds == {WINDOW, LONG}
    assert any("takes about" in line for line in reported)
    assert any(line.startswith("round 2: round 2: ") for line in reported)  # for the live page
    assert read_progress(folder) is None


@pytest.mark.server
def test_the_answer_is_the_same_from_the_files_of_its_run(answered: Answered) -> None:
    found, folder, _ = answered
    again = study.load(folder, journal.load_plan(folder), journal.read_planned(folder))
    again = replace(again, disturbed=None)  # other tests may disturb it
    assert answer.document(again) == answer.document(found)
    assert json.dumps(answer.as_dict(again)) == json.dumps(answer.as_dict(found))


@pytest.mark.server
def test_if_requests_fail_in_each_set_up_the_last_error_is_told(answered: Answered) -> None:
    _, folder, _ = answered
    own = ApplicationFacts("wsgi", failing=Failing(error="KeyError: 7 (shop.py:3)"))
    failing = [
        replace(each, application=own, result=replace(each.result, failed={"5xx": 9}, completed=91))
        for each in journal.read_planned(folder)
    ]
    with pytest.raises(RunError, match=r"no set-up worked: .*5xx.*\(KeyError: 7 \(shop.py:3\)\)"):
        study.load(folder, journal.load_plan(folder), failing)


@pytest.mark.server
def test_a_share_of_calls_that_fail_by_themselves_is_told_and_allowed(answered: Answered) -> None:
    _, folder, _ = answered
    some = [
        replace(each, result=replace(each.result, failed={"5xx": 2}, completed=98))
        for each in journal.read_planned(folder)
    ]
    found = study.load(folder, journal.load_plan(folder), some)
    assert found.meets_rate
    assert "2.0 % of the requests fail." in answer.as_dict(found)["why"]


@pytest.mark.server
def test_the_memory_and_the_cpu_of_each_set_up_are_measured(answered: Answered) -> None:
    for row in answered[0].choice.rows:
        assert 5 < (row.memory_mib or 0) < 500
        assert 0 < (row.cpu_ms or 0) < 50


@pytest.mark.server
def test_the_text_names_the_set_up_first_and_fits(answered: Answered) -> None:
    found, folder, _ = answered
    lines = STUDY.render(folder, found, "text").splitlines()
    assert lines[0].startswith("Deploy ")
    assert found.best.setup.name in lines[0]
    assert len(lines) <= 30
    assert all(len(line) <= 100 or str(folder.parent) in line for line in lines)
    assert "offload run_server 3" in render(answer.document(found)).replace("\n", " ")


@pytest.mark.server
def test_the_json_has_what_a_program_needs(answered: Answered) -> None:
    values = json.loads(json.dumps(answer.as_dict(answered[0])))
    assert values["serve"].startswith("run_server:3,")
    assert {
        "processes",
        "threads",
        "capacity",
        "p99_s",
        "memory_mib",
        "cpu_ms",
        "client_share",
    } <= (values.keys())
    assert values["processes"] * values["threads"] == answered[0].best.setup.slots
    assert values["machines"] == 1


@pytest.mark.server
def test_the_document_of_a_run_is_derived_from_its_records(answered: Answered) -> None:
    folder, plan = answered[1], journal.load_plan(answered[1])
    found = study.load(folder, plan, journal.read_planned(folder, plan))
    with places.full_names():
        assert runner.documents([folder]) == {folder: answer.document(found)}


@pytest.mark.server
def test_the_report_of_a_run_starts_with_its_answer(
    answered: Answered, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, plan = answered[1], journal.load_plan(answered[1])
    found = study.load(folder, plan, journal.read_planned(folder, plan))
    runner.print_runs([folder], "text")
    assert capsys.readouterr().out.startswith(render(answer.document(found)))
    runner.print_runs([folder], "json")
    own = json.loads(capsys.readouterr().out)["answer"]
    assert own["serve"] == found.serve


@pytest.mark.server
def test_an_advice_without_its_question_is_reported_in_one_sentence(
    answered: Answered, tmp_path: Path
) -> None:
    folder = tmp_path / answered[1].name
    shutil.copytree(answered[1], folder)
    (folder / journal.QUESTION).unlink()
    found = runner.documents([folder])[folder]
    assert (found.headline, found.has_verdict) == (
        f"{folder.name} is an advice of an older version.",
        False,
    )


@pytest.mark.server
def test_a_disturbed_measurement_has_no_verdict(answered: Answered) -> None:
    disturbed = Flag("disturbed", "other processes used 60 % of the CPU", "end them")
    found = answer.document(replace(answered[0], disturbed=disturbed))
    assert not found.has_verdict
    assert found.headline.startswith("No verdict for ")


@pytest.fixture
def command(answered: Answered, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command advise, with this answer."""
    monkeypatch.setattr(study, "advise", lambda *_: answered[0])
    monkeypatch.setattr(journal, "new_run", lambda _: answered[1])


@pytest.mark.server
def test_an_interrupt_while_the_report_is_written_does_not_lose_the_answer(
    command: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "write_report", interrupted)
    said = fab_here("advise:noop_sync")
    assert said.returncode == 130
    assert said.stdout.startswith("Deploy ")


@pytest.mark.server
def test_an_interrupted_race_is_answered_and_ends_with_130(
    answered: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = replace(answered[0], is_interrupted=True)
    monkeypatch.setattr(study, "advise", lambda *_: early)
    monkeypatch.setattr(journal, "new_run", lambda _: answered[1])
    said = fab_here("advise:noop_sync")
    assert (said.returncode, said.stdout[:7]) == (130, "Deploy ")
    assert said.stderr == "interrupted: the answer is from the measurements until then\n"


@pytest.mark.server
def test_an_answer_without_its_program_is_not_lost(
    command: None, answered: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = answered[0].subject
    assert isinstance(known, Function)
    without = replace(answered[0], subject=Function(replace(known.probe, task="gone.py:quote")))
    monkeypatch.setattr(study, "advise", lambda *_: without)
    said = fab_here("advise:noop_sync,code=fastapi")
    assert said.returncode == 2
    assert said.stdout.startswith("Deploy ")
    assert said.stderr.splitlines()[-1].startswith("error: no file ")


@pytest.mark.server
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"missed": "rate"}, "50/s needs 1 machine of this size: deploy so many, or lower rate="),
        ({"missed": "p99"}, "no measured set-up meets p99=: make a call faster, or increase p99="),
        ({"missed": "memory"}, "no measured set-up meets memory=: reduce what a call needs"),
    ],
)
def test_a_requirement_that_is_missed_is_an_error_after_the_answer(
    changes: dict[str, str], words: str, answered: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed = replace(answered[0], choice=replace(answered[0].choice, **changes))
    monkeypatch.setattr(study, "advise", lambda *_: missed)
    monkeypatch.setattr(journal, "new_run", lambda _: answered[1])
    monkeypatch.setattr(runner, "write_report", lambda _: None)
    said = fab_here("advise:noop_sync")
    assert said.returncode == 5
    assert said.stdout.startswith("Deploy ")
    assert said.stderr.splitlines()[-1].startswith(f"error: {words}")


@pytest.mark.server
def test_a_required_p99_that_too_few_responses_show_is_not_called_met(answered: Answered) -> None:
    def carried(
        quantile: float, p99_s: float | None, rate: float | None = None, missed: str | None = None
    ) -> str:
        found = Latency(40.0, quantile, 0.2, 0.19, 0.21)
        best = replace(answered[0].best, latencies=(found,))
        prior = replace(answered[0].prior, question=Question(rate=rate, p99_s=p99_s))
        choice = replace(answered[0].choice, best=best, rows=(best,), missed=missed)
        return render(answer.document(replace(answered[0], prior=prior, choice=choice)))

    words = "too few responses for a p99: that of 600 ms is not shown"
    assert words in " ".join(carried(0.95, 0.6).split())
    assert words in " ".join(carried(0.5, 0.6, rate=40.0).split())
    assert words not in " ".join(carried(0.99, 0.6).split())
    assert words not in " ".join(carried(0.5, None).split())
    assert words not in " ".join(carried(0.5, 0.6, rate=40.0, missed="rate").split())
    assert words not in " ".join(carried(0.5, 0.6, rate=50.0).split())  # it was not loaded


@pytest.mark.server
def test_the_rate_at_which_a_required_p99_is_kept_is_reported_first(answered: Answered) -> None:
    def carried(**required: float) -> str:
        found = (Latency(40.0, 0.99, 0.04, 0.04, 0.04), Latency(60.0, 0.99, 0.09, 0.09, 0.09))
        best = replace(answered[0].best, latencies=found)
        prior = replace(answered[0].prior, question=Question(**required))  # type: ignore[arg-type]
        choice = replace(answered[0].choice, best=best, rows=(best,))
        headline = answer.document(replace(answered[0], prior=prior, choice=choice)).headline
        return " ".join(headline.split())

    assert "at 40.00/s p99 is 40 ms; at 60.00/s p99 is 90 ms" in carried(p99_s=0.06)
    assert "; at 60.00/s p99 is 90 ms" in carried(p99_s=0.1)
    assert "40.00/s" not in carried(p99_s=0.1)
    assert "40.00/s" not in carried(p99_s=0.03)


@pytest.mark.server
def test_two_rounds_show_their_number_and_no_interval(answered: Answered) -> None:
    def table(rates: dict[int, float]) -> str:
        best = replace(answered[0].best, rates=rates)
        choice = replace(answered[0].choice, rows=(best,))
        return render(answer.document(replace(answered[0], choice=choice)))

    assert "1187/s (2 rounds)" in table({1: 1000.0, 2: 1408.0})
    assert "1187/s (1089 to 1294)" in table({1: 1180.0, 2: 1150.0, 3: 1232.0})


@pytest.mark.server
def test_a_rate_that_nothing_here_carries_needs_so_many_machines(answered: Answered) -> None:
    missed = replace(answered[0].choice, missed="rate")
    prior = replace(answered[0].prior, question=Question(rate=1e6))
    found = replace(answered[0], choice=missed, prior=prior)
    assert found.machines == math.ceil(1e6 / (0.8 * (found.best.capacity or 0.0)))
    words = f"1,000,000/s needs {found.machines} machines of this size"
    assert str(found.unmet) == f"{words}: deploy so many, or lower rate="
    assert f"{words}: no set-up carries it" in " ".join(render(answer.document(found)).split())


@pytest.mark.server
@pytest.mark.parametrize(
    ("after", "collected", "words"),
    [
        (100.0, 98.0, "keeps 100 MiB."),
        (100.0, 60.0, "keeps 100 MiB, 60 MiB after a garbage collection."),
        (
            224.0,
            343.0,
            "343 MiB after a garbage collection (it writes to pages that forked processes "
            "share, unless frozen by gc.freeze()).",
        ),
    ],
)
def test_memory_after_the_load_is_told_with_the_effect_of_a_collection(
    after: float, collected: float, words: str, answered: Answered
) -> None:
    assert answered[0].best.collected_mib is not None  # it was measured
    best = replace(answered[0].best, after_mib=after, collected_mib=collected)
    found = replace(answered[0], choice=replace(answered[0].choice, best=best))
    [told] = [each for each in answer.as_dict(found)["flags"] if "After the load" in each]
    assert told.endswith(words)


@pytest.mark.server
@pytest.mark.timing  # beside other tests there may be no time left for it
def test_kept_connections_are_measured(answered: Answered) -> None:
    assert answered[0].keep_alive is not None


@pytest.mark.server
@pytest.mark.parametrize(
    ("times", "requests", "words"),
    [
        (1.2, (300, 290), ": as on new ones."),
        (0.2, (300, 290), ": less than on new ones."),
        (4.0, (500, 90), " on new ones: one process serves 85 %; use reuse_port=yes."),
        (4.0, (300, 290), " on new ones."),
    ],
)
def test_response_times_on_kept_connections_are_compared(
    times: float, requests: tuple[int, ...], words: str, answered: Answered
) -> None:
    latency = answered[0].best.latencies[-1]
    slower = replace(latency, value=times * latency.value)
    found = replace(answered[0], keep_alive=KeepAlive(slower, requests))
    [told] = [each for each in answer.as_dict(found)["flags"] if "kept connections" in each]
    assert told.endswith(words)


@pytest.mark.server
def test_a_leak_is_told_with_the_calls_until_the_limit(answered: Answered) -> None:
    known = answered[0].prior
    leaking = replace(known, costs=replace(known.costs, leak_mib=1.0, limit_mib=1024.0))
    notes = answer.as_dict(replace(answered[0], prior=leaking))["flags"]
    [told] = [each for each in notes if "leaks" in each]
    assert told.startswith("It leaks 1 MiB a call: it reaches 1024 MiB after ")
    assert told.endswith(" calls; fix that, or restart its processes before.")


@pytest.mark.server
@pytest.mark.parametrize(
    ("started", "words"),
    [
        (40.0, ["After the load it keeps 300 MiB, 40 MiB before it."]),
        (290.0, ["After the load it keeps 300 MiB."]),
    ],
)
def test_memory_that_a_load_leaves_is_named_with_its_lines(
    started: float, words: list[str], answered: Answered
) -> None:
    assert answered[0].best.started_mib is not None  # it was measured
    choice = answered[0].choice
    best = replace(choice.best, started_mib=started, after_mib=300.0, collected_mib=300.0)
    line = HotLine("calibrate", "sensors.py", 25, 0.98, "keeps memory")
    grown = replace(answered[0], choice=replace(choice, best=best))
    assert best.is_grown == (started == 40.0)
    notes = answer.as_dict(grown)["flags"]
    assert [each for each in notes if "it keeps" in each] == words
    notes = answer.as_dict(replace(grown, kept=(line,)))["flags"]
    told = "The memory that stays is allocated in calibrate (sensors.py:25): 98 %."
    assert notes.count(told) == 1


@pytest.mark.server
@pytest.mark.timeout(150)
def test_very_slow_calls_are_answered_from_one_round_of_few_set_ups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text("import time\ndef quote():\n    time.sleep(0.3)\n")
    monkeypatch.setattr(study, "BRIEF_FROM_S", 0.25)
    monkeypatch.setattr(study, "BRIEF_BUDGET_S", 12.0)
    case = Case("threads", f"{tmp_path}/shop.py:quote")
    found = study.advise(case, Question(), tmp_path / "run", lambda _: None)
    assert {len(each.rates) for each in found.choice.rows} == {1}
    assert not any(each.latencies for each in found.choice.rows)
    assert len(found.choice.rows) + len(found.choice.left_out) < 5


SHARES_CPU = """
import asyncio
import time

def compute():
    ends = time.thread_time() + 0.002
    while time.thread_time() < ends:
        pass

async def app(scope, receive, send):
    assert scope["type"] == "http"
    for _ in range(600):
        await asyncio.to_thread(compute)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})
"""


@pytest.mark.server
@pytest.mark.timeout(240)
def test_requests_that_all_end_late_are_measured_with_few_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("uvicorn_httptools")
    (tmp_path / "shop.py").write_text(SHARES_CPU)
    monkeypatch.setattr(study, "BRIEF_BUDGET_S", 12.0)
    monkeypatch.setattr(workload, "PATIENCE", 5.0)
    monkeypatch.setattr(workload, "LONGEST_PROBE", 5.0)
    case = Case("threads", "app=shop:app", path=str(tmp_path))
    told: list[str] = []
    found = study.advise(case, Question(), tmp_path / "run", told.append)
    assert [each for each in told if "users had no responses: a new server, with" in each]
    rates = {each.setup.name: each.capacity for each in found.choice.rows}
    assert all(0 < (each or 0.0) < 4.0 for each in rates.values()), rates  # 2 CPUs carry 1.7/s
    assert isinstance(found.subject, Application)
    assert found.subject.users < 10
    assert found.subject.causes


def test_a_memory_below_one_process_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    case = Case("threads", f"{tmp_path}/shop.py:quote")
    with pytest.raises(RunError, match="no set-up fits into 5 MiB"):
        study.advise(case, Question(memory_mib=5.0), tmp_path / "run", lambda _: None)


def test_a_p99_below_a_call_alone_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    case = Case("threads", f"{tmp_path}/shop.py:quote")
    with pytest.raises(RunError, match="no set-up reaches a p99 of 5 ms"):
        study.advise(case, Question(p99_s=0.005), tmp_path / "run", lambda _: None)


@pytest.mark.parametrize(
    ("preloads", "preload", "words"),
    [
        ({}, None, ""),
        ({"yes": 95.0, "freeze": 92.0}, None, ": neither saves much."),
        ({"yes": 60.0, "freeze": 58.0}, "yes", ": preload=yes."),
        ({"yes": 98.0, "freeze": 50.0}, "freeze", "gc.freeze() in pre_fork of gunicorn.conf.py."),
        ({"freeze": 99.0}, None, ": it saves little."),
    ],
)
def test_preload_is_judged_by_the_memory_after_a_collection(
    preloads: dict[str, float], preload: str | None, words: str
) -> None:
    folder = ROOT / "results" / "example-advise"
    found = study.load(folder, journal.load_plan(folder), journal.read(folder))
    best = replace(found.best, collected_mib=100.0)
    found = replace(found, choice=replace(found.choice, best=best), preloads=preloads)
    assert found.preload == preload
    told = [each for each in answer.as_dict(found)["flags"] if "After load" in each]
    assert "".join(told).endswith(words)
    assert bool(told) == bool(preloads)


def test_a_tie_names_only_what_was_measured_of_both() -> None:
    folder = ROOT / "results" / "example-advise"
    found = study.load(folder, journal.load_plan(folder), journal.read(folder))
    assert found.choice.tie is not None and found.choice.tie.memory_mib is not None
    tie = replace(found.choice.tie, latencies=())
    found = replace(found, choice=replace(found.choice, tie=tie))
    [said] = [each for each in answer.document(found).paragraphs if each.title == "Certainty"]
    both = f"A tie: {found.best.setup.name} and {tie.setup.name} do not certainly differ in"
    assert said.sentences[0] == f"{both} capacity and memory."


@pytest.mark.parametrize(
    ("others", "steal", "words"),
    [
        (0.4, 0.0, ["warning: other processes use 40 % of the machine's CPU (cc1 0.9 cores)"]),
        (0.0, 0.3, ["warning: the host takes 30 % of the machine's CPU"]),
        (0.05, None, []),
    ],
)
def test_a_busy_machine_is_told_at_the_start(
    others: float, steal: float | None, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = host.Noise(others, steal, None, 0.1, ("cc1 0.9 cores",))
    monkeypatch.setattr(host, "measure_noise", lambda: now)
    told: list[str] = []
    study._warn_of_others(told.append)
    assert [line.removesuffix(": the answer may be wrong") for line in told] == words


def test_a_long_command_can_be_pasted_into_a_shell() -> None:
    command = f"offload run_server threads {'/a' * 40}/shop.py:quote processes=2 workers=32"
    found = Document("Deploy it.", command=Command("Serve it", command))
    _, heading, *pasted = render(found).splitlines()
    assert heading == "Next: Serve it:"
    assert " ".join(line.removesuffix("\\").strip() for line in pasted) == command
    assert all(line.endswith(" \\") for line in pasted[:-1])
    short = Document("Deploy it.", command=Command("Serve it", "offload list"))
    assert render(short).splitlines()[1] == "Next: Serve it: offload list"
