"""Parse the values of command-line options; raise a one-line UsageError for invalid ones."""

from __future__ import annotations

import re
from itertools import count, takewhile
from pathlib import Path

from offload.errors import UsageError
from offload.registry.catalog import unknown

DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smSM]?)", re.ASCII)
LONGEST = 3600.0  # s
MEMORY = re.compile(r"(\d{1,7}(?:\.\d{1,3})?)([mMgG])(?:i?[bB])?", re.ASCII)
RESPONSE_TIME = re.compile(r"(\d{1,7}(?:\.\d{1,6})?)(ms|s|MS|S)", re.ASCII)
LONGEST_BODY = 1 << 20  # bytes, the maximum that our servers accept
NUMBER = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
MAX_NUMBERS = 10  # in a range: more would make a sweep longer, but not more accurate
MAX_DIGITS = 18  # no option needs more; int() raises ValueError for thousands of digits
SHOWN = 100  # characters of a value that an error shows


def whole_number(name: str, text: str, minimum: int, maximum: int) -> int:
    """Parse a whole number from `minimum` to `maximum`."""
    digits = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
    if not digits or not minimum <= int(text) <= maximum:
        raise UsageError(f"{_given(name, text)} is not a whole number from {minimum} to {maximum}")
    return int(text)


def number(name: str, text: str, minimum: float, maximum: float) -> float:
    """Parse a number from `minimum` to `maximum`, with or without a decimal point."""
    if not NUMBER.fullmatch(text) or not minimum <= float(text) <= maximum:
        raise UsageError(f"{_given(name, text)} is not a number from {minimum:g} to {maximum:.9g}")
    return float(text)


def whole_numbers(
    name: str, text: str, minimum: int, maximum: int, doubles: bool = False
) -> list[int]:
    """Parse `1+2+4`, or a range `1..16` into at most 10 numbers in geometric progression.

    With `doubles` each number of a range is twice the one before it, except the last.
    """
    first, dots, last = text.partition("..")
    if not dots:
        return sorted({whole_number(name, word, minimum, maximum) for word in text.split("+")})
    low, high = (
        whole_number(name, first, minimum, maximum),
        whole_number(name, last, minimum, maximum),
    )
    if low >= high:
        raise UsageError(f"{_given(name, text)} must be ascending", f"write {name}=1..16")
    if doubles:
        return [*takewhile(lambda number: number < high, (low << step for step in count())), high]
    if high - low < MAX_NUMBERS:
        return list(range(low, high + 1))
    return sorted(
        {round(low * (high / low) ** (step / (MAX_NUMBERS - 1))) for step in range(MAX_NUMBERS)}
    )


def seconds(name: str, text: str, minimum: float) -> float:
    """Parse a duration in seconds or, with the suffix m, in minutes: 30, 30s, 2m."""
    match = DURATION.fullmatch(text)
    value = float(match[1]) * (60 if match[2] in ("m", "M") else 1) if match else -1.0
    if not minimum <= value <= LONGEST:
        hint = f"a time from {minimum:g} s to {LONGEST:g} s, like 30 or 2m"
        raise UsageError(f"{_given(name, text)} is not {hint}")
    return value


def mebibytes(name: str, text: str) -> float | None:
    """Parse an amount of memory, 512M or 2G, into MiB; None for an empty text."""
    if not text:
        return None
    match = MEMORY.fullmatch(text)
    if match is None or not float(match[1]):
        raise UsageError(f"{_given(name, text)} is not an amount of memory, like 512M or 2G")
    return float(match[1]) * {"m": 1.0, "g": 1024.0}[match[2].lower()]


def response_time(name: str, text: str) -> float | None:
    """Parse a response time, 50ms or 0.2s, into seconds; None for an empty text."""
    if not text:
        return None
    match = RESPONSE_TIME.fullmatch(text)
    if match is None or not float(match[1]):
        raise UsageError(f"{_given(name, text)} is not a response time, like 50ms or 0.2s")
    return float(match[1]) / {"ms": 1000.0, "s": 1.0}[match[2].lower()]


def headers(name: str, text: str) -> dict[str, str]:
    """Parse headers `Name: value`; a `;` separates them if the name of another header follows."""
    from offload.loads import parse_headers

    return parse_headers(text, name)


def one_line(name: str, text: str) -> str:
    """Return a text, or with `@file` the content of a file without its line end."""
    return (body(name, text) or "").rstrip("\r\n") if text.startswith("@") else text


def header_lines(name: str, text: str) -> str:
    """Return headers `A: 1; B: 2`, or with `@file` those in the lines of a file."""
    if not text.startswith("@"):
        return text
    lines = (body(name, text) or "").splitlines()
    return "; ".join(line.strip() for line in lines if line.strip())


def body(name: str, text: str) -> str | None:
    """Return the body of a request, or with `@file` the content of a file; None if empty."""
    if not text.startswith("@"):
        return text or None
    try:
        with Path(text[1:]).expanduser().open("rb") as file:
            content = file.read(LONGEST_BODY + 1)  # a device may have no end
    except RuntimeError:
        raise UsageError(f"{name}={text[:200]}: no such user", "name a readable file") from None
    except OSError as error:
        raise UsageError(f"{name}={text[:200]}: {error.strerror}", "name a readable file") from None
    if len(content) > LONGEST_BODY:
        raise UsageError(f"{name}={text[:200]} has more than {LONGEST_BODY:,} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{name}={text[:200]} is not text in UTF-8") from None


def folder(name: str, text: str) -> str | None:
    """Return the absolute path of an existing folder; None for an empty text."""
    if not text:
        return None
    try:
        path = Path(text).expanduser().absolute()
        if path.is_dir():
            return str(path)
    except (OSError, RuntimeError):  # the name is too long, or the user of ~user does not exist
        pass
    raise UsageError(f"no folder {text[:200]!r} in {name}=")


def _given(name: str, text: str) -> str:
    """Return an option as it was given; a long value is cut."""
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
    return f"{name}={shown!r}"


def one_of(name: str, text: str, *choices: str) -> str:
    """Parse one of several words."""
    if text not in choices:
        raise unknown(f"{name}=", text, [*choices])
    return text
