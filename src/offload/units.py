"""Name quantities and format them as text for people; no program parses these texts."""

from __future__ import annotations

# The heads of columns in tables, HTML and the live page; results_files.DEFINITIONS explains them
CASE = "Server/task"
USERS, WORKERS = "Users", "Workers"
RATE, RESPONSE, MEMORY = "Rate", "Response", "Memory"
GIL_HELD, LOOP_LAG = "GIL held", "Loop lag"


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
    >>> seconds(0.9996), seconds(1234.5)
    ('1 s', '1234 s')
    """
    return " ".join(number_and_unit(value))


def number_and_unit(value: float) -> tuple[str, str]:
    """Render a time in s as a number and its unit: s, ms or us.

    >>> number_and_unit(0.0214)
    ('21.4', 'ms')
    """
    rounded = float(f"{value:.3g}")
    if rounded >= 1000:
        return f"{value:.0f}", "s"
    for limit, unit, factor in ((1.0, "s", 1.0), (1e-3, "ms", 1e3), (0.0, "us", 1e6)):
        if rounded >= limit:
            return f"{rounded * factor:.3g}", unit
    return "0", "s"


def after(what: str, took_s: float | None) -> str:
    """Render after how many seconds something happened; None: it did not.

    >>> after("served again", 1.75), after("served again", None)
    ('served again after 1.75 s', 'not served again')
    """
    return f"not {what}" if took_s is None else f"{what} after {seconds(took_s)}"


def counted(count: int, noun: str) -> str:
    """Render a number of things.

    >>> counted(1, "kill"), counted(6, "kill"), counted(2, "process")
    ('1 kill', '6 kills', '2 processes')
    """
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count} {noun}{ending}"


def cpus(quota: float) -> str:
    """Render a CPU quota.

    >>> cpus(1.0), cpus(0.5), cpus(2)
    ('1 CPU', '0.5 CPUs', '2 CPUs')
    """
    return f"{quota:.3g} CPU{'' if quota == 1 else 's'}"


def number(rate: float) -> str:
    """Render a rate with up to two decimal places.

    >>> number(14.286), number(120.04), number(43210.9)
    ('14.29', '120.0', '43211')
    """
    return f"{rate:.{2 if rate < 100 else 1 if rate < 1000 else 0}f}"


def ratio(value: float, low: float | None = None, high: float | None = None) -> str:
    """Render a ratio, with its confidence interval if that is known.

    >>> ratio(4.137), ratio(4.137, 3.914, 4.38)
    ('4.14x', '4.14x (3.91 to 4.38)')
    """
    text = f"{value:.2f}x"
    return text if low is None or high is None else f"{text} ({interval(low, high)})"


def interval(low: float, high: float) -> str:
    """Render the ends of the confidence interval of a ratio.

    >>> interval(3.914, 4.38)
    '3.91 to 4.38'
    """
    return f"{low:.2f} to {high:.2f}"
