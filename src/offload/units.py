"""Format quantities as text for people; no program parses these texts."""

from __future__ import annotations


def percent(share: float, digits: int = 0, sign: str = "") -> str:
    """Render a share as 46 %; with `sign` "+", a positive one as +46 %.

    >>> percent(0.457), percent(0.457, 1), percent(0.457, sign="+")
    ('46 %', '45.7 %', '+46 %')
    """
    return f"{100 * share:{sign}.{digits}f} %"


def seconds(value: float) -> str:
    """Render a time in s, ms or us.

    >>> seconds(1.75), seconds(0.0214), seconds(0.000031)
    ('1.75 s', '21.4 ms', '31 us')
    """
    for limit, unit, factor in ((1.0, "s", 1.0), (1e-3, "ms", 1e3), (0.0, "us", 1e6)):
        if value >= limit:
            return f"{value * factor:.3g} {unit}"
    return "0 s"


def number(rate: float) -> str:
    """Render a rate with up to two decimal places.

    >>> number(14.286), number(120.04), number(43210.9)
    ('14.29', '120.0', '43211')
    """
    return f"{rate:.{2 if rate < 100 else 1 if rate < 1000 else 0}f}"
