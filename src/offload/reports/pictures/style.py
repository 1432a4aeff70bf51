"""Colours, fonts and sizes that all pictures share."""

from __future__ import annotations

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
SMALL, TEXT = 12, 13  # px
