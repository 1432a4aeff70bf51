"""Several runs are side by side in one report."""

from __future__ import annotations

import json

import pytest

from offload.documents import html_charts, results_files
from offload.documents.pictures import PALETTE
from offload.engine import journal
from offload.engine.record import TEST
from offload.units import CASE
from tests.commands import fab_here
from tests.records import changed
from tests.reports.html.pages import (
    committed,
    copied,
    example_root,
    floats,
    parsed,
    rendered,
    tables,
    words,
    written,
)
from tests.reports.test_tables import PROCESSES, RECORD, windows

BOTH = ("example-graphene_django", "example-requests_aiohttp")


def test_each_value_of_each_run_is_in_a_column_of_its_own() -> None:
    found = tables(example_root(*BOTH))
    rates = found["Requests per second, by run"]
    assert [*rates[0]] == [CASE, *BOTH]
    for name in BOTH:
        results = results_files.run_values(journal.read(committed(name)))
        assert isinstance(results["rows"], list)
        known = sorted(row["rate"] for row in results["rows"] if row["rate"])
        shown = sorted(floats([row[name] for row in rates]))
        assert shown == pytest.approx(known, rel=1e-5)


def test_each_run_has_its_answer_and_every_figure_of_its_own() -> None:
    root = example_root(*BOTH)
    heads = [words(head) for head in root.iter("h2")]
    assert heads[:2] == [f"Answer of {name}" for name in BOTH]
    captions = tables(root)
    assert all(f"Every figure of {name}" in captions for name in BOTH)
    ids = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
    assert len(ids) == len(set(ids))


def test_each_table_of_several_runs_has_the_commands_that_started_them() -> None:
    folders = [written(name, *windows(RECORD, 10.0, 10.1, 9.9)) for name in ("one", "other")]
    for folder in folders:
        known = json.loads((folder / "run.json").read_text())
        argv = ["measure", "--case=3/noop_sync", f"--path={folder.name} x"]
        (folder / "run.json").write_text(json.dumps({**known, "argv": argv}))
    root = parsed(rendered(*folders))
    shown = {words(each) for each in root.iter("p") if each.attrib.get("class") == "again"}
    measure = "offload measure --case=3/noop_sync"
    assert any(f"{measure} '--path=one x'; {measure} '--path=other x'" in each for each in shown)


def test_a_case_that_one_run_lacks_has_a_dash() -> None:
    one = written("one", *windows(RECORD, 10.0, 10.1, 9.9))
    other = written("other", *windows(changed(PROCESSES, task="new"), 20.0, 20.1, 19.9))
    rows = tables(parsed(rendered(one, other)))["Requests per second, by run"]
    shown = [[words(row[name]) != "-" for name in ("one", "other")] for row in rows]
    assert shown == [[True, False], [False, True]]


def test_rows_of_the_same_case_are_all_shown() -> None:
    tests = [
        changed(RECORD, kind=TEST, rate=rate, asked_rate=asked)
        for rate, asked in ((10.0, 10.0), (19.0, 20.0), (18.0, 20.0))
    ]
    one, other = written("one", *tests), written("other", *tests[:2])
    rows = tables(parsed(rendered(one, other)))["Requests per second, by run"]
    name = "threads/xml, 25 users, {} requested".format
    assert [words(row[CASE]) for row in rows] == [
        name("10/s"),
        name("20/s"),
        f"{name('20/s')} (2)",
    ]
    assert [floats([row["one"]]) for row in rows] == [[10.0], [19.0], [18.0]]
    assert [floats([row["other"]]) for row in rows] == [[10.0], [19.0], []]


def test_ratios_of_the_same_task_are_all_shown() -> None:
    """With new connections and with kept ones, whose difference is not in their names."""
    records = [
        record
        for is_kept, rate in ((False, 20.0), (True, 30.0))
        for case, own in ((RECORD, 10.0), (PROCESSES, rate))
        for record in windows(case, own, 1.01 * own, 0.99 * own, keep_alive=is_kept)
    ]
    one, other = written("one", *records), written("other", *records)
    rows = tables(parsed(rendered(one, other)))[f"{html_charts.EFFECTS_TITLE}, by run"]
    shown = [floats([row["one"]]) for row in rows]
    assert sorted(shown) == [[pytest.approx(2.0)], [pytest.approx(3.0)]]


def test_runs_differ_by_shape_and_are_named_in_the_legend() -> None:
    root = example_root(*BOTH)
    pictures = [element for element in root.iter() if str(element.tag).endswith("svg")]
    assert len(pictures) >= 3
    for picture in pictures:
        assert {*BOTH} <= {" ".join(text.split()) for text in picture.itertext()}


def test_axes_of_times_and_shares_have_their_units() -> None:
    root = example_root("example", "example-tornado")
    for title, units in (("Response time, p99", ("ms", "s")), ("holds the GIL", ("%",))):
        [picture] = [
            element
            for element in root.iter()
            if str(element.tag).endswith("svg") and title in (element[0].text or "")
        ]
        ticks = [words(each) for each in picture.iter() if each.get("text-anchor") == "middle"]
        assert ticks
        assert all(tick.endswith(units) for tick in ticks)


def test_a_long_name_of_a_run_does_not_leave_the_picture() -> None:
    one, other = (written(f"baseline-{'x' * 64}-{n}", RECORD, PROCESSES) for n in (1, 2))
    root = parsed(rendered(one, other))
    picture = next(element for element in root.iter() if str(element.tag).endswith("svg"))
    texts = [words(each) for each in picture.iter() if str(each.tag).endswith("text")]
    legend = [text for text in texts if "xxx" in text]
    assert [(len(text), text[-2:]) for text in legend] == [(56, "-1"), (56, "-2")]


@pytest.mark.slow
def test_fab_report_reads_several_runs() -> None:
    copied(BOTH[0]), copied(BOTH[1])
    done = fab_here(f"report:runs={'+'.join(BOTH)},format=html")
    path = journal.RESULTS / f"{'+'.join(BOTH)}.html"
    assert (done.returncode, done.stdout) == (0, f"{path}\n")
    assert path.read_text() == rendered(*map(committed, BOTH))
    text = fab_here(f"report:runs={'+'.join(BOTH)}")
    alone = [fab_here(f"report:{name}").stdout for name in BOTH]
    assert all(own in text.stdout for own in alone)
    assert all(f"{name}\n{'=' * len(name)}\n" in text.stdout for name in BOTH)
    read = json.loads(fab_here(f"report:runs={'+'.join(BOTH)},format=json").stdout)
    assert read == [results_files.run_values(journal.read(committed(name))) for name in BOTH]


@pytest.mark.parametrize(
    ("words_of_command", "why"),
    [
        ("runs=run0+run0", "run0 is named twice"),
        ("run0,runs=run0", "exclude each other"),
        ("runs=run0+missing", "no run 'missing'"),
        (f"runs={'+'.join(f'run{n}' for n in range(7))}", "7 runs are too many"),
        (f"runs={'+'.join(BOTH)},format=svg", "shows one run"),
        ("run0,open=yes", "open=yes needs format=html"),
        ("run0,format=htm", "html"),
        ("run0,format=rst", "no 'rst' in format="),
    ],
)
def test_wrong_words_are_refused_in_one_line(words_of_command: str, why: str) -> None:
    for name in BOTH:
        copied(name)
    for number in range(len(PALETTE) + 1):
        written(f"run{number}", RECORD)
    refused = fab_here(f"report:{words_of_command}")
    assert refused.returncode in (2, 6)
    assert (refused.stdout, refused.stderr.count("\n")) == ("", 1)
    assert why in refused.stderr
