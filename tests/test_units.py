"""Shares have the same format everywhere: 46 %."""

from __future__ import annotations

import re

import pytest

from offload.registry import places
from offload.units import percent
from tests import ROOT

BY_HAND = re.compile(r":[-+]?[0-9]*(\.[0-9])?%\}|[0-9}]%[\"' ,;:)]")  # in texts: {x:.0%}, 46%


@pytest.mark.parametrize(
    ("options", "text"),
    [({}, "46 %"), ({"digits": 1}, "45.6 %"), ({"sign": "+"}, "+46 %")],
)
def test_a_share_is_rendered_in_percent(options: dict[str, int | str], text: str) -> None:
    assert percent(0.456, **options) == text  # type: ignore[arg-type]


def test_no_other_place_renders_shares_without_the_space() -> None:
    paths = [
        *(ROOT / "scripts").rglob("*.py"),
        *(ROOT / "lab").rglob("*.py"),
        *places.PACKAGE.glob("[bcr]*/**/*.py"),
    ]
    found = [
        f"{path.name}: {line.strip()}"
        for path in paths
        if "corpus" not in path.parts
        for line in path.read_text().splitlines()
        if BY_HAND.search(line)
    ]
    assert found == []
