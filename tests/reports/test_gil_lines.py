"""Whole lines of the GIL effects and of several Pythons side by side."""

from __future__ import annotations

import pytest

from offload.documents import comparisons as gil
from offload.documents import results_files
from offload.documents.results_files import (
    TERMINAL,
    WIDE,
    load_test_text,
    publish,
    results_txt,
    shortened_output,
    tables,
)
from offload.documents.rows import (
    Provenance,
    case_label,
    gil_enabled_by,
    group_by_provenance,
    provenance_of,
    python_after_load,
    python_name,
    rows,
)
from offload.engine import journal
from offload.engine.record import TEST, Record
from offload.errors import CANNOT_LOAD, Problem
from tests.records import changed
from tests.reports.test_tables import AWAY, PROCESSES, RECORD, effects, windows

ROUNDS = (10.0, 10.1, 9.9, 10.0, 10.0)
FREE = {"python": "3.13.0", "free_threaded_build": True, "gil_enabled": False}


def measured(ratio: float, **changes: object) -> list[Record]:
    """Return windows in threads, and in processes at a ratio of their rates."""
    both = changed(RECORD, **changes), changed(PROCESSES, **changes)
    noise = (1.001, 0.999, 1.0, 1.001, 0.999)
    others = [rate * ratio * off for rate, off in zip(ROUNDS, noise, strict=True)]
    return [*windows(both[0], *ROUNDS), *windows(both[1], *others)]


@pytest.mark.parametrize(
    ("ratio", "reading"),
    [
        (1.5, "Processes are 1.5x as fast"),
        (1.0, "No difference that matters"),
        (0.6, "Threads are 1.7x as fast: a hop to a process costs more than the GIL"),
    ],
)
def test_the_reading_follows_from_the_verdict(ratio: float, reading: str) -> None:
    [effect] = effects(*measured(ratio))
    assert effect.reading == reading


def test_a_line_has_rates_ratio_cost_and_what_the_pool_allows() -> None:
    found = effects(*measured(2.0, gil_hold=0.456))
    head, _, line, detail = gil.effects_table(found).splitlines()
    assert [cell.strip() for cell in head.split("  ") if cell.strip()] == list(gil.EFFECTS_HEAD)
    assert [cell.strip() for cell in line.split("  ") if cell.strip()] == [
        *("xml", "46 %", "10.00/s", "20.00/s", "2.00x (2.00 to 2.00)")
    ]
    assert detail == "  Processes are 2.0x as fast: the task holds the GIL"
    unknown = gil.effects_table(effects(*measured(1.5, alone_s=None))).splitlines()[2]
    assert [cell.strip() for cell in unknown.split("  ") if cell.strip()][1] == "-"


def test_the_largest_ratio_is_first() -> None:
    other = measured(1.9, task="json", command="run_server:3,json")
    other = [changed(r, command=f"{r.case.server} json") for r in other]
    assert [effect.threads.first.case.task for effect in effects(*measured(1.2), *other)] == [
        "json",
        "xml",
    ]


def test_effects_of_different_checkouts_and_requests_are_named() -> None:
    records: list[Record] = []
    for origin, path in ((None, "/"), (None, "/a"), ("../main", "/")):
        for case, rate in ((RECORD, 10.0), (PROCESSES, 20.0)):
            facts = {"id": f"{case.case.server} {origin}", "origin": origin}
            records += windows(case, rate, 1.01 * rate, request={"path": path}, **facts)
    load = "4 workers, 25 users, GET"
    assert sorted(gil.describe_effects(effects(*records))) == [
        f"{load} /",
        f"{load} /a",
        f"from ../main, {load} /",
    ]


def test_one_run_each_has_a_ratio_and_no_interval() -> None:
    [effect] = effects(RECORD, PROCESSES)
    assert effect.ratio == pytest.approx(1.9)
    assert "1.90x\n" in gil.effects_table([effect])
    assert effect.verdict.pairs == 0


def test_pythons_are_in_the_order_of_their_versions() -> None:
    def made(version: str, rate: float) -> Record:
        facts = {"python": version}
        return changed(RECORD, id=version, python=version, interpreter=facts, rate=rate)

    found = rows([made("3.14.0", 14.0), made("3.9.1", 9.0), made("3.11.7", 11.0)])
    head, _, line = results_files.python_table(found).splitlines()
    assert head.split("  Python ")[1:] == ["3.9.1", "3.11.7", "3.14.0"]
    assert line.split() == ["threads/xml", "25", "9.00", "once", "11.00", "once", "14.00", "once"]
    assert results_files.python_table(found[:1]) == ""


def test_rows_of_pythons_that_differ_only_in_a_setting_are_all_shown() -> None:
    def made(python: str, workers: int, rate: float) -> Record:
        command = f"run_server:3,xml,workers={workers},python={python}"
        facts = {"python": python, "interpreter": {"python": python}}
        return changed(RECORD, command=command, rate=rate, **facts)

    known = (("3.11.7", 4, 10.0), ("3.11.7", 8, 11.0), ("3.14.0", 4, 20.0), ("3.14.0", 8, 21.0))
    lines = results_files.python_table(rows([made(*each) for each in known])).splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["threads/xml", "25", "10.00", "once", "20.00", "once"],
        ["workers=4"],
        ["threads/xml", "25", "11.00", "once", "21.00", "once"],
        ["workers=8"],
    ]


def test_a_python_that_was_requested_by_two_names_has_two_rows() -> None:
    def made(requested: str | None, version: str, rate: float) -> Record:
        command = f"run_server:3,xml{f',python={requested}' if requested else ''}"
        facts = {"python": requested, "interpreter": {"python": version}}
        return changed(RECORD, id=f"threads@{requested}/xml", command=command, rate=rate, **facts)

    known = ((None, "3.11.7", 10.0), ("3.11", "3.11.7", 11.0), ("3.14", "3.14.0", 20.0))
    again = made("3.11", "3.11.7", 12.0)
    again = changed(again, environment={**again.environment, "cores": 8})
    found = rows([*(made(*each) for each in known), again])
    head, _, *lines = results_files.python_table(found).splitlines()
    assert head.split("  Python ")[1:] == ["3.11.7", "3.14.0"]
    assert [line.split() for line in lines] == [
        ["threads/xml", "25", "10.00", "once", "20.00", "once"],
        ["threads/xml", "25", "11.00", "once", "-"],
        ["python=3.11"],
        ["threads/xml", "25", "12.00", "once", "-"],
        ["python=3.11", "(2)"],
    ]


def test_the_same_request_is_compared_with_the_gil_on_and_off() -> None:
    def made(setting: str, path: str, rate: float) -> list[Record]:
        python = f"3.13t-{setting}"
        facts = {"id": f"threads@{python}/xml", "python": python, "request": {"path": path}}
        interpreter = {**FREE, "gil_enabled": setting == "gil"}
        return windows(RECORD, rate, 1.01 * rate, interpreter=interpreter, **facts)

    known = (("gil", "/a", 10.0), ("gil", "/b", 90.0), ("nogil", "/a", 20.0), ("nogil", "/b", 90.0))
    found = gil.on_and_off_pairs(rows([record for each in known for record in made(*each)]))
    ratios = [pair.comparison.verdict.ratio for pair in found]
    assert ratios == [pytest.approx(2.0), pytest.approx(1.0)]


def test_a_python_without_a_case_has_a_dash_and_a_reason_once_for_all() -> None:
    needs = Problem(CANNOT_LOAD, "tasks/xml.py needs lxml")
    lost = changed(AWAY, interpreter={}, problem=needs, python="3.13t")
    away = [
        changed(lost, server=server, id=f"{server}@3.13t/xml")
        for server in ("threads", "processes")
    ]
    other = changed(PROCESSES, command="run_server:processes,xml")
    lines = results_files.python_table(
        rows([RECORD, *away, changed(other, task="json")])
    ).splitlines()
    assert lines[2].split() == ["threads/xml", "25", "10.00", "once", "cannot", "load"]
    assert lines[3].split() == ["processes/xml", "25", "-", "cannot", "load"]
    assert lines[-1] == "* threads/xml, processes/xml in 3.13t: tasks/xml.py needs lxml"


@pytest.mark.parametrize(
    ("facts", "name", "loaded", "who"),
    [
        ({"python": "3.11.7", "gil_enabled": True}, "3.11.7", "3.11.7", None),
        (FREE, "3.13.0t", "3.13.0t, its GIL off", None),
        (FREE | {"gil_enabled": True}, "3.13.0t", "3.13.0t, its GIL on", "an import"),
        (
            FREE | {"gil_enabled": True, "gil_enabled_by": "lxml"},
            "3.13.0t",
            "3.13.0t, its GIL on",
            "importing lxml",
        ),
        (
            FREE | {"gil_enabled": True, "python_gil": "1"},
            "3.13.0t, GIL on",
            "3.13.0t, its GIL on",
            None,
        ),
        (FREE | {"python_gil": "0"}, "3.13.0t, GIL off", "3.13.0t, its GIL off", None),
    ],
)
def test_a_python_is_named_with_its_gil(
    facts: dict[str, object], name: str, loaded: str, who: str | None
) -> None:
    record = changed(RECORD, interpreter=facts)
    found = (
        python_name(record),
        python_after_load(record),
        gil_enabled_by(record),
    )
    assert found == (name, loaded, who)


def test_unknown_provenance_matches_all_and_different_ones_never_mix() -> None:
    def divided(*found: Provenance) -> list[list[Provenance]]:
        return group_by_provenance(found, lambda one: one)

    assert divided(("a", None), ("a", "x"), ("a", "y")) == [[("a", None), ("a", "x")], [("a", "y")]]
    assert divided(("a", "x"), ("b", "x"), ("a", "x")) == [[("a", "x"), ("a", "x")], [("b", "x")]]
    assert divided((None, None), ("b", "x")) == [[(None, None), ("b", "x")]]
    unknown = changed(RECORD, environment={}, interpreter={})
    assert provenance_of(unknown) == (None, None, None)


def test_the_output_of_a_tool_is_kept_whole_and_shortened_only_when_long() -> None:
    lines = [str(n) for n in range(TERMINAL)]
    assert shortened_output("\n".join(lines)) == "\n".join(lines)
    assert shortened_output("\n".join(["first", *lines])).splitlines() == [
        "... 1 more lines: the records have all of them ...",
        *lines,
    ]
    assert shortened_output("x" * WIDE) == "x" * WIDE
    assert shortened_output("x" * (WIDE + 1)) == "x" * WIDE + " ..."
    assert shortened_output(None) == ""


def test_results_begin_with_the_title_and_the_output_of_each_long_run() -> None:
    failed = changed(PROCESSES, output=None, driver=None, problem="no answer")
    without = changed(PROCESSES, output=None)  # of a load that did not fail
    lines = results_txt([RECORD, failed, without]).splitlines()
    title = "run_server:3,xml   (25 users, siege)"
    assert lines[:4] == [title, "=" * len(title), "the tool's own words", ""]
    assert lines[4] == "run_server:4,xml   (25 users, no load)"
    assert lines[6] == "no answer"
    assert sum(line.startswith("run_server:") for line in lines) == 2
    assert tables([]) == "no records\n"


def test_results_are_kept_with_their_run_and_as_the_newest() -> None:
    folder = journal.new_run("x")
    kept = publish(folder, [RECORD])
    assert kept == folder / "results.txt"
    for path in (kept, journal.RESULTS / "results.txt"):
        assert path.read_text() == results_txt([RECORD])


def test_results_of_a_file_whose_name_is_not_text_are_kept() -> None:
    name = "caf\udce9.py:quote"  # as Python reads a name in Latin-1
    record = changed(RECORD, task=name, command=f"run_server:3,{name}")
    kept = publish(journal.new_run("x"), [record])
    assert "threads/caf\ufffd.py:quote" in kept.read_text()


def test_one_load_test_has_its_row_its_times_and_its_warnings() -> None:
    flagged = changed(RECORD, kind=TEST, flags=("others: 20 %: end them",))
    head, _, line, load, _, outcome, _, note = load_test_text(flagged).splitlines()
    assert head.split()[:2] == ["Server/task", "Users"]
    assert (line.split()[0], load) == ("threads/xml", "  siege")
    assert outcome == "300 completed, failed: 3 timeout, 7 unfinished; availability 99.00 %"
    assert note == "* others: 20 %: end them"
    asked = changed(RECORD, request={"path": "/a", "method": "POST", "body": "b=1"})
    assert case_label(asked) == "run_server:3,xml  POST /a b=1"
