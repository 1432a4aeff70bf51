"""Quantities as text for people; nothing reads these texts again."""

from __future__ import annotations


def percent(share: float, digits: int = 0, sign: str = "") -> str:
    """Render a share as 46 %; with `sign` "+", a positive one as +46 %."""
    return f"{100 * share:{sign}.{digits}f} %"
