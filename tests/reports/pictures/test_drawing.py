"""Pictures are small SVG with a text for each value, and the same bytes each time."""

from __future__ import annotations

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from offload.documents import Curve, Spot
from offload.documents.pictures import (
    PALETTE,
    SEVERAL,
    SHAPES,
    Band,
    Bands,
    Key,
    Line,
    Mark,
    Picture,
    Plane,
    inline_pictures,
    linear_axis,
    log_axis,
    plane_svg,
    standalone_picture,
)

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<b>&\x00\ud800"


def picture(*values: float, label: str = "case") -> Picture:
    own = [
        Band(
            f"{label} {n}",
            (Line((Mark(value, f"{label} {n} is {value}"),), f"{value}", value / 2, value * 2),),
        )
        for n, value in enumerate(values)
    ]
    scale = log_axis([v for band in own for v in band.lines[0].values], lambda v: f"{v:g}")
    return Picture(Bands(own, scale, reference=1.0).svg, "title", "description")


def drawn(one: Picture) -> Element:
    [text] = inline_pictures([one])
    return ElementTree.fromstring(text)


def titles(root: Element) -> list[str]:
    return [e.text or "" for e in root.iter(f"{SVG}title")][1:]


def test_each_value_has_its_text_and_its_mark_and_larger_ones_are_further_right() -> None:
    root = drawn(picture(1.0, 10.0, 100.0))
    assert titles(root) == ["case 0 is 1.0", "case 1 is 10.0", "case 2 is 100.0"]
    marks = [e for e in root.iter() if any(child.tag == f"{SVG}title" for child in e)][1:]
    places = [float(mark.attrib["cx"]) for mark in marks]
    assert places == sorted(places)
    assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=0.3)
    shown = [e.text for e in root.iter(f"{SVG}text")]
    assert {"case 0", "case 1", "case 2", "1.0", "10.0", "100.0"} <= {*shown}


def test_small_ticks_have_labels() -> None:
    shown = {e.text for e in drawn(picture(3e-5, 2e-4)).iter(f"{SVG}text")}
    assert {"1e-05", "2e-05", "5e-05", "0.0001", "0.0002", "0.0005"} <= shown


@pytest.mark.slow
def test_a_picture_is_the_same_each_time_also_beside_others() -> None:
    one, other = picture(1.0, 2.0), picture(3.0)
    first = inline_pictures([one])
    assert inline_pictures([one, other])[0] == first[0]
    assert standalone_picture(one) == standalone_picture(one)


def test_ids_of_pictures_on_one_page_differ() -> None:
    found = inline_pictures([picture(1.0), picture(1.0)])
    ids = [name for text in found for name in re.findall(r'id="([^"]+)"', text)]
    assert len(ids) == len(set(ids)) == 4


def test_a_picture_names_no_class_style_or_font_and_all_its_colours_are_known() -> None:
    [text] = inline_pictures([picture(1.0, 5.0)])
    assert not re.search(r" (class|style|font-family|aria-(?!labelledby)[a-z]+)=", text)
    colours = {*re.findall(r'(?:fill|stroke)="([^"]+)"', text)}
    assert colours <= {*PALETTE, "none"}


def test_a_label_is_text_whatever_it_contains() -> None:
    root = drawn(picture(1.0, label=HOSTILE))
    assert "<b>&\ufffd\ufffd 0" in [e.text for e in root.iter(f"{SVG}text")]
    assert titles(root) == ["<b>&\ufffd\ufffd 0 is 1.0"]


def test_the_legend_and_several_values_of_a_case_are_drawn() -> None:
    keys = [Key(f"run {n}", *look) for n, look in enumerate(zip(SHAPES, PALETTE, strict=True))]
    lines = tuple(
        Line((Mark(1.0 + n, f"value {n}", key.shape, key.colour),), f"{n}")
        for n, key in enumerate(keys)
    )
    scale = linear_axis([7.0], lambda v: f"{v:g}")
    root = drawn(Picture(Bands([Band("case", lines)], scale, SEVERAL, keys).svg, "t", "d"))
    assert titles(root) == [f"value {n}" for n in range(len(keys))]
    assert {key.words for key in keys} <= {e.text for e in root.iter(f"{SVG}text")}


def test_a_curve_has_its_points_its_model_and_its_rule() -> None:
    plane = Plane(
        linear_axis([16.0], lambda v: f"{v:g}"),
        linear_axis([60.0], lambda v: f"{v:g}"),
        "workers",
        "requests/s",
    )
    points = [Spot(n, 10.0 * n, f"{n} workers", 9.0 * n, 11.0 * n) for n in (1, 2, 4)]
    model = Curve("knee", ((1.0, 10.0), (4.0, 40.0), (16.0, 40.0)))
    root = drawn(Picture(plane_svg(plane, points, [model], at=4.0), "t", "d"))
    assert titles(root) == ["1 workers", "2 workers", "4 workers"]
    circles = [(float(e.attrib["cx"]), float(e.attrib["cy"])) for e in root.iter(f"{SVG}circle")]
    assert circles == sorted(circles)
    assert [y for _, y in circles] == sorted((y for _, y in circles), reverse=True)
    assert {"workers", "requests/s", "\u2014 knee"} <= {e.text for e in root.iter(f"{SVG}text")}
    width, height = (float(root.attrib[name]) for name in ("width", "height"))
    assert all(0 <= x <= width and 0 <= y <= height for x, y in circles)
