"""The page of claims has a table for each source, and no text in it is markup."""

from __future__ import annotations

from dataclasses import replace

import docutils.core
import docutils.nodes
import pytest

from offload.suites import Audit, Case, Claim
from scripts.pages import claims_by_source
from tests.reports.test_claims import AUDIT, CASE, VERDICT


def test_a_page_has_each_claim_below_its_source_with_its_cases_and_reason() -> None:
    one, other = Case("loop", "sleep_sync"), Case("threads", "sleep_sync")
    claim = Claim("four", "me/it", "a.rst", "it is *four*", one, other, 4.0, conditions="now")
    audit = Audit("rows", "me/it", "a.rst", "2 workers", (), users=25)
    pairs = [(claim, replace(VERDICT, run="a-run")), (audit, AUDIT)]
    page = claims_by_source.rst({"a_suite": pairs}, {"a-run": "Measured here."})
    assert page.startswith("2 claims and audits: holds 1, does not hold 1.\n\na_suite\n-------\n")
    assert "The figures are from the committed run ``results/a-run``.\n\nMeasured here." in page
    shown = docutils.core.publish_doctree(page)
    rows = [
        [cell.astext() for cell in row.findall(docutils.nodes.entry)]
        for row in shown.findall(docutils.nodes.row)
    ]
    words = "four: it is *four* (3/sleep_sync over 2/sleep_sync)"
    assert [row for row in rows if row != [*claims_by_source.HEAD]] == [
        [words, "4.00x", "3.90x (3.80 to 4.00)", "holds", "as published"],
        ["rows: 2 workers", "76.54/s", "at most 40.00/s", "does not hold", "2 x 1 / 0.05 s"],
    ]
    sources = [node.astext() for node in shown.findall(docutils.nodes.paragraph)]
    assert "me/it, a.rst. Conditions: now." in sources
    assert "Audit of the rates in me/it, a.rst." in sources


@pytest.mark.parametrize("text", ["-", "a*b", "`a`", "|a|", "name_", "3@3.14/noop_sync"])
def test_text_of_a_claim_is_no_markup(text: str) -> None:
    claim = Claim(text, "me", text, "", CASE, CASE, 4.0, conditions=text)
    page = claims_by_source.rst(
        {"a_suite": [(claim, replace(VERDICT, claim=text, reason=text))]}, {}
    )
    shown = docutils.core.publish_doctree(page)
    assert [*shown.findall(docutils.nodes.entry)][-1].astext() == text
    assert not [*shown.findall(docutils.nodes.reference)]
