"""Verdicts are one line each with a reason below, and the documented fields as JSON."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import docutils.core
import docutils.nodes
import pytest

from offload.documents import claim_tables
from offload.engine import journal
from offload.engine.claim_evaluation import ClaimVerdict
from offload.suites import Case, Claim
from tests import ROOT
from tests.commands import fab_here
from tests.records import changed, new_record

CASE = Case("loop", "sleep_sync")
VERDICT = ClaimVerdict("a_suite", "four", 4.0, 3.9, 3.8, 4.0, "holds", "as published")
AUDIT = ClaimVerdict(
    "a_suite", "rows", 76.54, 40.0, None, None, "does not hold", "2 x 1 / 0.05 s", "/s"
)


def test_a_line_has_claim_published_here_and_verdict_and_the_next_the_reason() -> None:
    line, reason = claim_tables.text([VERDICT]).splitlines()[-2:]
    words = ["a_suite", "four", "4.00x", "3.90x (3.80 to 4.00)", "holds"]
    assert [part.strip() for part in line.split("  ") if part.strip()] == words
    assert reason == "  as published"


def test_a_long_reason_is_wrapped() -> None:
    long = replace(VERDICT, reason="rate x mean is about 128 users " * 8)
    assert max(map(len, claim_tables.text([long]).splitlines())) <= 100


def test_a_ratio_of_another_figure_than_the_rate_names_it() -> None:
    line = claim_tables.text([replace(VERDICT, unit="x time")])
    assert "4.00x time  3.90x time (3.80 to 4.00)" in line


def test_an_audit_shows_its_ceiling() -> None:
    assert "76.54/s  at most 40.00/s" in claim_tables.text([AUDIT])


def test_json_has_the_documented_fields() -> None:
    [row] = json.loads(claim_tables.as_json([AUDIT]))
    first = ["suite", "claim", "published", "here", "low", "high", "verdict", "reason"]
    assert list(row) == [*first, "unit", "figure", "statement", "run"]


def test_fab_claims_evaluates_every_claim_and_saves_the_verdicts() -> None:
    completed = fab_here("claims:format=json")
    found = json.loads(completed.stdout)
    assert completed.returncode == 0, completed.stderr
    assert {row["suite"] for row in found} >= {"tornado", "fastapi_strawberry"}
    assert all(row["verdict"] and row["reason"] for row in found)
    saved = (journal.RESULTS / "claims.rst").read_text()
    assert all(row["claim"] in saved and row["statement"] in saved for row in found)
    assert {row["unit"] for row in found} == {"x", "x time", "x memory", " %", "/s"}
    assert {row["run"] for row in found} == {None}


def test_where_nothing_was_measured_yet_the_committed_example_is_named_once() -> None:
    (journal.RESULTS / "example-tornado").mkdir()
    assert fab_here("claims").stdout.count("offload claims run=example-tornado") == 1
    run = journal.new_run("granian")
    journal.append(run, changed(new_record(Case("loop", "noop_sync"), "", None), suite="granian"))
    assert "claims run=example-tornado" not in fab_here("claims").stdout


def test_the_terminal_shows_the_suites_that_were_measured_and_the_document_all() -> None:
    def suites(table: str) -> set[str]:
        lines = table.partition("\n\n")[0].splitlines()[2:]
        return {line.split()[0] for line in lines if line[0] != " "}  # else a wrapped reason

    assert suites(fab_here("claims").stdout) >= {"tornado", "granian"}
    run = journal.new_run("granian")
    journal.append(run, changed(new_record(Case("loop", "noop_sync"), "", None), suite="granian"))
    completed = fab_here("claims")
    assert suites(completed.stdout) == {"granian"}
    assert "tornado: not measured here yet: offload run_suite tornado quick=yes" in completed.stdout
    assert "tornado" in (journal.RESULTS / "claims.rst").read_text().partition("\n* ")[0]


def test_the_verdicts_on_one_suite_do_not_replace_those_on_all() -> None:
    completed = fab_here("claims:granian")
    saved = journal.RESULTS / "claims.rst"
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.endswith(
        f"claims and their sources: offload claims writes them to {saved}\n"
    )
    assert not saved.exists()


def test_an_example_has_the_committed_verdicts_of_its_own_suites_alone() -> None:
    committed = ROOT / "results" / "example"
    own = shutil.copytree(committed, journal.RESULTS / "example")
    (own / "claims.rst").unlink()
    completed = fab_here("claims:run=example")
    assert completed.returncode == 0, completed.stderr
    assert (own / "claims.rst").read_text() == (committed / "claims.rst").read_text()
    assert "granian" not in completed.stdout
    assert f"claims and their sources: {own / 'claims.rst'}" in completed.stdout


@pytest.mark.parametrize("path", [*(ROOT / "results").glob("*/claims.rst")], ids=str)
def test_the_committed_documents_are_valid_and_have_their_tables_as_text(path: Path) -> None:
    strict = {"report_level": 1, "halt_level": 2}
    document = docutils.core.publish_doctree(path.read_text(), settings_overrides=strict)
    blocks = [block.astext() for block in document.findall(docutils.nodes.literal_block)]
    assert [block.split()[0] for block in blocks] == ["Suite", "Rates"]


@pytest.mark.parametrize("words", ["claims:run=none", "claims:granian,run=none"])
def test_a_run_without_the_suite_is_one_line(words: str) -> None:
    (journal.RESULTS / "none").mkdir()
    (journal.RESULTS / "none" / journal.FILE).touch()
    completed = fab_here(words)
    assert (completed.returncode, completed.stderr.count("\n")) == (2, 1)
    assert "none did not measure " in completed.stderr


def test_a_suite_that_is_not_there_is_one_line() -> None:
    completed = fab_here("claims:tornad")
    assert (completed.returncode, completed.stderr.count("\n")) == (2, 1)


def test_a_sentence_has_its_author_source_and_conditions() -> None:
    case = Case("loop", "sleep_sync")
    claim = Claim("four", "me", "here", "it is four", case, case, 4.0, conditions="4 workers")
    text = claim_tables.sources_rst([("a_suite", claim), ("a_suite", replace(claim, name="five"))])
    assert text.splitlines()[3:] == [
        "* a_suite: me, here (4 workers)",
        "",
        "  * four: it is four",
        "  * five: it is four",
    ]
