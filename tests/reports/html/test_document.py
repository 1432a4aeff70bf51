"""A run with a document has its charts, and no other figures, in its page."""

from __future__ import annotations

from offload.cli import runner
from offload.documents import Document, html_report
from offload.documents.html_sections import read_run
from offload.documents.pictures import LEFT, LETTER, PLANE_WIDTH, SMALL, tag_of
from tests import ROOT

EXAMPLE = ROOT / "results" / "example-advise"


DOCUMENT = runner.documents([EXAMPLE])[EXAMPLE]


def test_the_page_of_an_advice_has_its_two_pictures_and_no_single_loads() -> None:
    html = html_report.html([read_run(EXAMPLE, DOCUMENT)])
    for chart in DOCUMENT.charts:
        assert chart.title in html
    assert "Deploy 2 processes of 32 threads each" in html
    assert "Every figure" not in html
    assert "Requests per second" not in html


def test_a_document_without_charts_has_a_page() -> None:
    assert "Deploy it." in html_report.html([read_run(EXAMPLE, Document("Deploy it."))])


def test_names_of_points_cover_no_name_and_no_point() -> None:
    [chart, _] = DOCUMENT.charts
    picture = html_report._picture(chart)
    shown = {spot.name for spot in chart.spots}
    names = [
        (float(each.attrib["x"]), float(each.attrib["y"]), each.text or "")
        for each in picture.svg.iter(tag_of("text"))
        if each.text in shown
    ]
    assert len(names) == len(chart.spots)
    for x, y, text in names:
        assert x >= LEFT and x + LETTER * len(text) <= PLANE_WIDTH
        covered = [
            other
            for left, base, other in names
            if other != text
            and abs(base - y) < SMALL
            and left < x + LETTER * len(text)
            and x < left + LETTER * len(other)
        ]
        assert covered == []
