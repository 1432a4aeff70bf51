"""Colours, fonts and sizes that all pictures share."""

from __future__ import annotations

from collections.abc import Mapping

# Medium lightness: visible on white and on black. The style of a page may replace them.
GREY, BLUE, ORANGE, GREEN, PURPLE, RED = (
    "#777777",
    "#2f7fe0",
    "#cf6a0a",
    "#1f9254",
    "#8b63d6",
    "#d1495b",
)
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, RED, GREY)
SHAPES = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down")
FONT = "-apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"
MEASURED = "Liberation Sans"  # the font in the package: widths are the same on every machine
SMALL, TEXT = 12, 13  # px

CONFIG: Mapping[str, object] = {
    "font": MEASURED,
    "background": None,
    "view": {"stroke": None},
    "axis": {
        "labelColor": GREY,
        "labelFontSize": SMALL,
        "titleColor": GREY,
        "titleFontSize": SMALL,
        "titleFontWeight": "normal",
        "domain": False,
        "ticks": False,
        "gridColor": GREY,
        "gridOpacity": 0.3,
        "labelPadding": 6,
    },
    "text": {"fontSize": SMALL, "baseline": "alphabetic", "fill": GREY},
}
