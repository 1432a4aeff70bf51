"""The picture of the GIL effects is XML that shows each effect of the records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from offload.documents import comparisons, html_charts
from offload.documents.comparisons import Effect
from offload.documents.pictures import BLUE, ORANGE, WIDE
from offload.documents.rows import rows
from offload.engine import decisions, journal
from offload.engine.decisions import Verdict
from offload.errors import StorageError
from tests import ROOT
from tests.commands import fab_here
from tests.reports.test_tables import PROCESSES, RECORD, windows

SVG = "{http://www.w3.org/2000/svg}"
EXAMPLES = [
    path if path.name == "example-tornado" else pytest.param(path, marks=pytest.mark.slow)
    for path in sorted((ROOT / "results").glob("example*"))
]


def of_run(folder: Path) -> list[Effect]:
    return comparisons.effects(rows(journal.read(folder)))


def elements(node: ElementTree.Element, **inherited: str) -> Iterator[ElementTree.Element]:
    """Yield all elements, each with the attributes that it inherits."""
    node.attrib = {**inherited, **node.attrib}
    yield node
    for child in node:
        yield from elements(child, **(node.attrib if node.tag == f"{SVG}g" else {}))


def of_kind(picture: str, kind: str) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(picture)
    return [node for node in elements(root) if node.tag == f"{SVG}{kind}"]


def texts(picture: str) -> list[str]:
    return [node.text or "" for node in of_kind(picture, "text")]


def dots(picture: str) -> list[ElementTree.Element]:
    return of_kind(picture, "circle")


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.name)
def test_every_effect_of_a_committed_run_is_in_the_picture(folder: Path) -> None:
    found = of_run(folder)
    if not found:
        with pytest.raises(StorageError):
            html_charts.effects_svg(found)
        return
    picture = html_charts.effects_svg(found)
    shown = texts(picture)
    assert len(dots(picture)) == len(found)
    for effect in found:
        task = effect.threads.first.case.task
        assert task in shown
        assert comparisons.short_words(task) in " ".join(shown)
        assert f"{effect.ratio:.2f}x" in shown


def test_the_picture_scales_and_its_text_can_be_read() -> None:
    picture = html_charts.effects_svg(of_run(ROOT / "results" / "example-tornado"))
    root = ElementTree.fromstring(picture)
    assert re.fullmatch(r"0 0 \d+ [\d.]+", root.attrib["viewBox"])
    shown = of_kind(picture, "text")
    assert min(int(node.attrib["font-size"]) for node in shown) >= 12
    width = float(root.attrib["width"])
    assert all(0 <= float(node.attrib.get("x", 0)) < width for node in shown)


def test_dots_are_on_the_side_of_what_is_faster() -> None:
    found = comparisons.effects(
        rows([*windows(RECORD, 10.0, 11.0, 10.0), *windows(PROCESSES, 19.0, 21.0, 20.0)])
    )
    [faster] = dots(html_charts.effects_svg(found))
    swapped = comparisons.effects(
        rows([*windows(RECORD, 19.0, 21.0, 20.0), *windows(PROCESSES, 10.0, 11.0, 10.0)])
    )
    [slower] = dots(html_charts.effects_svg(swapped))
    assert float(faster.attrib["cx"]) > float(slower.attrib["cx"])
    colours = faster.attrib["fill"], slower.attrib["fill"]
    assert colours == (BLUE, ORANGE)


def test_a_ratio_without_an_interval_or_beyond_the_axis_is_drawn_within_it() -> None:
    [one] = comparisons.effects(rows([RECORD, PROCESSES]))
    assert one.verdict.low is None
    extreme = Verdict(decisions.FASTER, 5000.0, 4000.0, 6000.0, 5, None, None)
    far = Effect(one.threads, one.processes, type(one.comparison)(extreme), None)
    picture = html_charts.effects_svg([one, far])
    assert len(dots(picture)) == 2
    places = [float(dot.attrib["cx"]) for dot in dots(picture)]
    first, last = WIDE.plot
    assert all(first <= place <= last for place in places)


def test_fab_report_prints_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "RESULTS", ROOT / "results")
    printed = fab_here("report:example-tornado,format=svg").stdout
    assert printed == html_charts.effects_svg(of_run(ROOT / "results" / "example-tornado"))
