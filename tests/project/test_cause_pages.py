"""Each cause stands on the page for users, on that for JSON, and on that with its source."""

from __future__ import annotations

import re

import pytest

from offload.causes.diagnosis import LAST_WORDS, RULES
from tests import ROOT

PAGES = ("docs/how_to/application.rst", "docs/reference.rst", "lab/advice.rst")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("kind", [rule.kind for rule in (*RULES, *LAST_WORDS)])
def test_a_cause_stands_on_a_page(kind: str, page: str) -> None:
    assert re.search(rf"\b{kind}\b", (ROOT / page).read_text())
