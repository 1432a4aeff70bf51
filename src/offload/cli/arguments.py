"""Values: what the words of a command line stand for, or one line that says what they should be."""

from __future__ import annotations

import re
from pathlib import Path

from offload.errors import UsageError
from offload.registry.catalog import unknown

DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smSM]?)")
LONGEST = 3600.0  # s
NUMBER = re.compile(r"\d{1,9}(\.\d{1,9})?")
MANY = 10  # numbers of a range: more would make a sweep long, not better
DIGITS = 18  # more is no number of ours, and int() itself refuses thousands


def whole(name: str, text: str, least: int, most: int) -> int:
    """Read a whole number from `least` to `most`."""
    digits = text.isascii() and text.isdigit() and len(text) <= DIGITS
    if not digits or not least <= int(text) <= most:
        raise UsageError(f"{name}={text!r} is not a whole number from {least} to {most}")
    return int(text)


def number(name: str, text: str, least: float, most: float) -> float:
    """Read a number from `least` to `most`, which may have a decimal point."""
    if not NUMBER.fullmatch(text) or not least <= float(text) <= most:
        raise UsageError(f"{name}={text!r} is not a number from {least:g} to {most:g}")
    return float(text)


def wholes(name: str, text: str, least: int, most: int) -> list[int]:
    """Read `1+2+4`, or `1..16` as at most MANY numbers that grow evenly by ratio."""
    first, dots, last = text.partition("..")
    if not dots:
        return sorted({whole(name, word, least, most) for word in text.split("+")})
    low, high = whole(name, first, least, most), whole(name, last, least, most)
    if low >= high:
        raise UsageError(f"{name}={text!r} does not rise: write {name}=1..16")
    if high - low < MANY:
        return list(range(low, high + 1))
    return sorted({round(low * (high / low) ** (step / (MANY - 1))) for step in range(MANY)})


def seconds(name: str, text: str, least: float) -> float:
    """Read a time in seconds, or in minutes with an m behind it: 30, 30s, 2m."""
    match = DURATION.fullmatch(text)
    value = float(match[1]) * (60 if match[2] in ("m", "M") else 1) if match else -1.0
    if not least <= value <= LONGEST:
        hint = f"a time from {least:g} s to {LONGEST:g} s, like 30 or 2m"
        raise UsageError(f"{name}={text!r} is not {hint}")
    return value


def folder(name: str, text: str) -> str | None:
    """Read a folder that is there, as its whole path; None when there is no text."""
    if not text:
        return None
    try:
        path = Path(text).expanduser().absolute()
        if path.is_dir():
            return str(path)
    except (OSError, RuntimeError):  # a name too long, a home of nobody
        pass
    raise UsageError(f"no folder {text[:200]!r} in {name}=")


def one_of(name: str, text: str, *choices: str) -> str:
    """Read one of some words."""
    if text not in choices:
        raise unknown(f"{name}=", text, [*choices])
    return text
