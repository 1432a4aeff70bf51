"""Texts at positions in a picture, in px from its top left corner, and the legend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from offload.reports.pictures.style import GREY, SMALL

LETTER = 6.6  # px: the mean width of a letter of SMALL
ROW = 20  # px: the height of a row of the legend
DOT = 90  # px^2: the size of a mark
PLACE = {"domain": [0, 1], "range": [0, 1], "zero": False, "nice": False}

# The encoding of the field y, a position in px.
Y = {"field": "y", "type": "quantitative", "scale": PLACE, "axis": None}


@dataclass(frozen=True)
class Text:
    """Words that start at `x`, or end there with `ends_at_x`, on a baseline at `y`."""

    x: float
    y: float
    words: str
    size: int = SMALL
    is_bold: bool = False
    colour: str = GREY
    ends_at_x: bool = False


@dataclass(frozen=True)
class Key:
    """An entry of the legend."""

    words: str
    shape: str
    colour: str


def layers(texts: Sequence[Text]) -> Iterator[dict[str, object]]:
    """Yield a layer for all texts with the same x position, size, weight and colour."""
    kinds: dict[tuple[float, int, bool, str, bool], list[Text]] = {}
    for each in texts:
        if each.words:
            key = (each.x, each.size, each.is_bold, each.colour, each.ends_at_x)
            kinds.setdefault(key, []).append(each)
    for (x, size, is_bold, colour, ends_at_x), own in kinds.items():
        look = {"fontSize": size, "fontWeight": "bold" if is_bold else "normal", "fill": colour}
        align = "right" if ends_at_x else "left"
        yield {
            "data": {"values": [{"y": each.y, "words": each.words} for each in own]},
            "mark": {"type": "text", "align": align, "aria": False, **look},
            "encoding": {"x": {"value": x}, "y": Y, "text": {"field": "words"}},
        }


def legend_height(keys: Sequence[Key], width: int) -> int:
    """Return the height of the legend in px."""
    return ROW * len(_rows(keys, width))


def legend(keys: Sequence[Key], width: int, top: float) -> Iterator[dict[str, object]]:
    """Yield the layers of the legend: the shape and the words of each entry."""
    texts = []
    for number, row in enumerate(_rows(keys, width)):
        y = top + ROW * number
        for x, key in row:
            look = {"shape": key.shape, "fill": key.colour, "stroke": key.colour}
            mark = {"type": "point", "size": DOT, "opacity": 1, "strokeWidth": 2, "aria": False}
            yield {
                "data": {"values": [{}]},
                "mark": {**mark, **look},
                "encoding": {"x": {"value": x}, "y": {"value": y}},
            }
            texts.append(Text(x + 12, y + 4, key.words))
    yield from layers(texts)


def _rows(keys: Sequence[Key], width: int) -> list[list[tuple[float, Key]]]:
    """Return the entries of the legend in rows, each with its x position."""
    rows: list[list[tuple[float, Key]]] = []
    x = float(width)
    for key in keys:
        own = 22 + LETTER * len(key.words) + 14
        if not rows or x + own > width:
            rows.append([])
            x = 6.0
        rows[-1].append((x, key))
        x += own
    return rows
