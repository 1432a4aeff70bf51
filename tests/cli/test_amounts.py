"""The constraints of advice: amounts of memory and response times."""

from __future__ import annotations

import pytest

from offload.errors import UsageError
from offload.options import arguments


@pytest.mark.parametrize(
    ("text", "mib"), [("512M", 512), ("2G", 2048), ("1.5g", 1536), ("64MiB", 64), ("", None)]
)
def test_amounts_of_memory(text: str, mib: float | None) -> None:
    assert arguments.mebibytes("memory", text) == mib


@pytest.mark.parametrize(("text", "seconds"), [("50ms", 0.05), ("0.2s", 0.2), ("", None)])
def test_response_times(text: str, seconds: float | None) -> None:
    assert arguments.response_time("p99", text) == seconds


@pytest.mark.parametrize("text", ["0M", "12", "M", "-1M", "1T", "1e9M", "\u0661M", "9" * 40 + "G"])
def test_other_texts_are_refused_in_one_line(text: str) -> None:
    for parse in (arguments.mebibytes, arguments.response_time):
        with pytest.raises(UsageError, match=r"^x='.*' is not an? [^\n]*$"):
            parse("x", text)


def test_an_error_shows_only_the_start_of_a_long_value() -> None:
    text = "9" * 100_000
    for parse in (
        lambda: arguments.whole_number("x", text, 1, 1000),
        lambda: arguments.number("x", text, 1, 1000),
        lambda: arguments.seconds("x", text, 1.0),
        lambda: arguments.mebibytes("x", text),
        lambda: arguments.response_time("x", text),
    ):
        with pytest.raises(UsageError, match=r"^x='9{100}\.\.\.' is not an? ") as raised:
            parse()
        assert len(str(raised.value)) < 200
