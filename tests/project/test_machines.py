"""docs/how_to/machines.rst says whether its simulation agrees with what was measured."""

from __future__ import annotations

import re

import pytest

from tests import ROOT

pytestmark = pytest.mark.unit
LIMIT = 30  # %


def test_the_verdict_on_the_simulation_agrees_with_its_table() -> None:
    text = (ROOT / "docs" / "how_to" / "machines.rst").read_text()
    generated = text.partition(".. cluster-begin")[2].partition(".. cluster-end")[0]
    errors = [int(each) for each in re.findall(r"([+-]\d+) %$", generated, re.MULTILINE)]
    far = sum(abs(each) > LIMIT for each in errors)
    assert f"The largest difference is {max(errors, key=abs):+d} %." in generated
    verdict = f"**The validation fails**: {far} of {len(errors)} simulated rates differ"
    assert (verdict in generated) is (far > 0)
    assert ("All " in generated) is (far == 0)
