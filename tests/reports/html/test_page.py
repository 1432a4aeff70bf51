"""The report of each committed run: the same bytes each time, valid, complete and not too large."""

from __future__ import annotations

import gzip
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offload.documents import comparisons, html_report, results_files
from offload.documents.html_charts import on_off_picture
from offload.documents.html_sections import read_run
from offload.documents.rows import rows
from offload.engine import journal
from offload.engine.record import WINDOW, Record
from offload.errors import RunError
from offload.suites import Case
from tests import ROOT
from tests.bench import gates
from tests.records import changed
from tests.reports.html.pages import (
    EXAMPLES,
    FIGURED,
    SMALL,
    committed,
    copied,
    example,
    example_root,
    floats,
    parsed,
    rendered,
    tables,
    words,
    written,
)
from tests.reports.test_tables import AWAY, PROCESSES, RECORD, windows

RATES = "Requests per second"


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= (
            flat(value, f"{prefix}{name} ") if isinstance(value, dict) else {prefix + name: value}
        )
    return found


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@pytest.mark.slow
def test_a_run_has_the_same_report_each_time_in_any_process() -> None:
    program = (
        "import sys; from pathlib import Path; from offload.documents.html_report import html; "
        "from offload.documents.html_sections import read_run; "
        "sys.stdout.write(html([read_run(Path(sys.argv[1]))]))"
    )
    command = [sys.executable, "-c", program, str(committed("example"))]
    environment = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Kathmandu", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        command, env=environment, capture_output=True, encoding="utf-8", cwd=ROOT, timeout=60
    )
    assert done.stdout == example("example"), done.stderr[-500:]


def test_the_report_of_a_task_in_a_file_is_the_same_in_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copied("example-advise")
    for path in folder.iterdir():
        is_packed = path.suffix == ".gz"
        content = gzip.decompress(path.read_bytes()) if is_packed else path.read_bytes()
        content = content.replace(b"docs.shop:quote", f"{tmp_path}/shop.py:quote".encode())
        path.write_bytes(gzip.compress(content) if is_packed else content)
    found = []
    for place in (tmp_path, tmp_path.parent):
        monkeypatch.chdir(place)
        found.append(rendered(folder))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_report_is_one_file_of_at_most_400_kb_without_links_to_others(name: str) -> None:
    html = example(name)
    assert len(html.encode()) <= 400_000
    for element in example_root(name).iter():
        targets = [element.attrib.get(word) for word in ("src", "href", "data", "action", "poster")]
        assert all(target is None or target.startswith("#") for target in targets), element
    assert "@import" not in html
    assert "url(" not in html


@pytest.mark.parametrize("name", FIGURED)
def test_each_figure_of_the_json_report_is_in_a_table(name: str) -> None:
    found = tables(example_root(name))
    results = results_files.run_values(journal.read(committed(name)))
    for caption, objects in (("figure", results["rows"]), ("ratio", results["effects"])):
        assert isinstance(objects, list)
        shown = found.get(f"Every {caption} of {name}", [])
        assert len(shown) == len(objects)
        for cells, values in zip(shown, objects, strict=True):
            for key, value in flat(values).items():
                if is_number(value):
                    cell = cells[key]
                    assert floats([cell]) == pytest.approx([value], rel=1e-5)
                    assert float(words(cell)) == pytest.approx(value, rel=1e-5)
                elif key in cells and isinstance(value, str):
                    assert words(cells[key]) == " ".join(value.split())
    assert isinstance(results["machine"], dict)
    facts = {words(cells["Fact"]): cells["Value"] for cells in found[f"Machine of {name}"]}
    for key, value in flat(results["machine"]).items():
        if value is not None:
            assert words(facts[key]) in (str(value), f"{value:.6g}" if is_number(value) else "")


@pytest.mark.parametrize("name", FIGURED)
def test_the_answer_is_first_and_has_the_sentences_of_the_text_report(name: str) -> None:
    root = example_root(name)
    sections = [*root.iter("section")]
    assert sections[0].attrib["id"] == "answer"
    assert sections[-1].attrib["id"] == "figures"
    first = words(sections[0])
    text = " ".join(results_files.tables(journal.read(committed(name))).split())
    for effect in comparisons.effects(rows(journal.read(committed(name)))):
        assert effect.reading in text
        assert effect.reading in first
        assert comparisons.ratio_text(effect) in first


@pytest.mark.parametrize(("rates", "scope"), [((10.0,), "1 round"), ((10.0, 9.9), "2 rounds")])
def test_the_answer_has_the_number_of_rounds(rates: tuple[float, ...], scope: str) -> None:
    [answer, *_] = parsed(rendered(written("run", *windows(RECORD, *rates)))).iter("section")
    assert f"1 row, {scope} of fresh servers at most." in words(answer)


def test_the_answer_names_the_python_of_each_ratio_of_several() -> None:
    newer = {"python": "3.14.0", "gil_enabled": True}
    folder = written(
        "pythons",
        *windows(RECORD, 10.0, 10.1, 9.9),
        *windows(PROCESSES, 20.0, 20.1, 19.9),
        *windows(RECORD, 30.0, 30.1, 29.9, interpreter=newer),
        *windows(PROCESSES, 30.0, 30.1, 29.9, interpreter=newer),
    )
    [answer, *_] = parsed(rendered(folder)).iter("section")
    names = [words(name) for name in answer.iter("b")]
    assert names == ["xml (1: Python 3.11.7)", "xml (2: Python 3.14.0)"]


def test_the_ratios_of_a_gate_are_those_of_its_sides() -> None:
    """Not those of processes to threads, which are not measured in the same rounds."""
    plan = gates.plan(gates.THREADS, gates.PROCESSES, Case("loop", "count_sync"))
    noise = gates.rates(1.0, 0.8, 1.0, sd=0.005)

    def values(place: int, number: int) -> dict[str, Any]:
        gone = {"rate": None, "problem": "the server ended"}
        return {**noise(place, number), **(gone if place == 5 else {})}

    folder = journal.new_run(plan.suite)
    journal.save_plan(plan, folder)
    journal.append(folder, *gates.records(plan, values, 10, folder.name))
    root = parsed(rendered(folder))
    [ratios] = [section for section in root.iter("section") if section.attrib["id"] == "ratios"]
    [table] = tables(ratios).values()
    assert [words(row["Verdict"]) for row in table] == ["no loss", "loss", "fails"]
    assert floats([row["Ratio"] for row in table]) == pytest.approx([1.0, 0.8], abs=0.03)
    assert all(0.7 < value < 1.1 for row in table for value in floats([row["From"], row["To"]]))
    texts = {words(each) for each in ratios.iter() if str(each.tag).endswith("text")}
    assert {"3/count_sync", "4/count_sync", "\u2190 slower now"} <= texts
    assert "2/count_sync" not in texts


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_picture_has_a_name_a_description_and_a_table_beside_it(name: str) -> None:
    root = example_root(name)
    ids = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
    assert len(ids) == len(set(ids))
    pictures = [element for element in root.iter() if str(element.tag).endswith("svg")]
    assert len(pictures) >= 3
    for picture in pictures:
        assert picture.attrib["role"] == "img"
        assert {*picture.attrib["aria-labelledby"].split()} <= {*ids}
    drawn = [e for e in root.iter("div") if e.attrib.get("class") == "panel drawn"]
    assert len(drawn) >= 3
    assert all([*panel.iter("figure")] and [*panel.iter("table")] for panel in drawn)


def test_the_answer_has_the_command_that_started_its_run() -> None:
    shown = {words(code) for code in example_root("example-advise").iter("code")}
    assert "offload advise --task=docs.shop:quote" in shown


@pytest.mark.parametrize("name", EXAMPLES)
def test_headings_are_in_order_and_tables_can_be_read_aloud(name: str) -> None:
    root = example_root(name)
    levels = [int(e.tag[1]) for e in root.iter() if re.fullmatch("h[1-6]", str(e.tag))]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert [len([*root.iter(tag)]) for tag in ("header", "main", "footer", "nav")] == [1, 1, 1, 1]
    assert all(head.attrib.get("scope") in ("col", "row") for head in root.iter("th"))
    regions = [e for e in root.iter("div") if e.attrib.get("role") == "region"]
    assert len(regions) == len([*root.iter("table")])
    assert all(region.attrib["tabindex"] == "0" for region in regions)


def test_the_policy_allows_our_own_style_and_script_alone() -> None:
    html = example(SMALL)
    policy = next(
        meta.attrib["content"]
        for meta in parsed(html).iter("meta")
        if meta.attrib.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert policy.count("sha256-") == 2
    assert not re.search(r"<[^>]* (style|on\w+)=", html)


def test_a_case_without_figures_reports_why_and_has_no_zero() -> None:
    html = rendered(written("away", AWAY, *windows(PROCESSES, 10.0, 10.1, 9.9)))
    cells = tables(parsed(html))[RATES]
    [away] = [row for row in cells if "not available" in words(row["Rate"])]
    assert "no network" in words(away["Warnings"])
    assert "data-v" not in away["Rate"].attrib


def test_servers_that_do_not_start_with_their_gil_have_no_picture_of_ratios() -> None:
    def made(record: Record, setting: str) -> Record:
        python = f"3.13t-{setting}"
        return changed(record, kind=WINDOW, round=1, id=f"threads@{python}/xml", python=python)

    [pair] = comparisons.on_and_off_pairs(rows([made(AWAY, "gil"), made(RECORD, "nogil")]))
    assert pair.comparison.verdict.ratio is None
    assert on_off_picture([pair]) is None


@pytest.mark.parametrize("field", ["task", "server"])
def test_a_run_is_reported_whose_tasks_or_servers_are_removed(field: str) -> None:
    old = read_run(committed(SMALL))
    records = [
        replace(r, case=replace(r.case, **{field: f"removed_{getattr(r.case, field)}"}))
        for r in old.records
    ]
    found = tables(parsed(html_report.html([replace(old, records=records)])))
    assert len(found[RATES]) == len(old.rows)
    assert "Claims about graphene_django" in found


def test_a_flag_stands_in_the_row_that_it_is_about() -> None:
    flagged = changed(RECORD, flags=["little: users waited elsewhere"])
    cells = tables(parsed(rendered(written("flagged", flagged, PROCESSES))))[RATES]
    noted = [words(row["Warnings"]) for row in cells if "Warnings" in row]
    assert [("users waited elsewhere" in note) for note in noted] == [True, False]


@pytest.mark.slow
def test_a_run_that_is_too_large_has_no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written("run", *windows(RECORD, 10.0, 10.1, 9.9), *windows(PROCESSES, 20.0, 19.0))
    whole = rendered(folder)
    monkeypatch.setattr(html_report, "LIMIT", len(whole.encode()) - 1)
    smaller = rendered(folder)
    assert ("<svg" in whole, "<svg" in smaller) == (True, False)
    assert tables(parsed(smaller)).keys() == tables(parsed(whole)).keys()
    monkeypatch.setattr(html_report, "LIMIT", 5000)
    with pytest.raises(RunError, match="more than 5: use format=json"):
        rendered(folder)
