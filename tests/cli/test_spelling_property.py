"""Every spelling of a call passes the same values; any words are options or a one-line error."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from offload.cli import commands
from offload.cli.fab import commands_of
from offload.cli.program import NO, OFFLOAD, YES
from offload.errors import UsageError
from tests.properties import examples

assert commands  # they have registered themselves

PARAMETERS = OFFLOAD.all_parameters()
TEXT = st.text(st.characters(codec="utf-8", exclude_characters=","), min_size=1, max_size=12)
NAMES = sorted({*PARAMETERS, *(name for known in PARAMETERS.values() for name in known)})
SIGNS = st.sampled_from(["server", "=", ",", ":", "-", "--", "_", "3", "yes", " ", "\n", "é"])
WORD = st.lists(st.sampled_from(NAMES) | SIGNS | st.text(max_size=3), max_size=6).map("".join)


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Draw a command and values of some of its options."""
    name = draw(st.sampled_from(sorted(PARAMETERS)))
    known = PARAMETERS[name]
    values = {}
    for parameter in draw(st.lists(st.sampled_from([*known] or [""]), unique=True)):
        if parameter:
            values[parameter] = draw(st.booleans() if known[parameter] is bool else TEXT)
    return name, values


def rewritten(words: list[str]) -> list[list[str]]:
    return [[name, *sorted(options)] for name, *options in commands_of(words)]


def expected(name: str, values: dict[str, Any]) -> list[str]:
    flags = {key: "--" + key.replace("_", "-") for key in values}
    given_ = [
        flags[key] if value is True else f"{flags[key]}={value}"
        for key, value in values.items()
        if value is not False
    ]
    return [name, *sorted(given_)]


def shown(value: object, draw: Any) -> str:
    if isinstance(value, bool):
        word: str = draw(st.sampled_from(YES if value else NO))
        return draw(st.sampled_from([word, word.upper(), word.title()]))
    return str(value)


@examples(40)
@given(call=calls(), data=st.data())
def test_values_by_name_in_any_order_become_options_as_they_are(
    call: tuple[str, dict[str, Any]], data: st.DataObject
) -> None:
    name, values = call
    pairs = data.draw(st.permutations([f"{k}={shown(v, data.draw)}" for k, v in values.items()]))
    word = data.draw(st.sampled_from([name, name.replace("_", "-")]))
    assert rewritten([f"{word}:{','.join(pairs)}"]) == [expected(name, values)]


@examples(40)
@given(call=calls(), count=st.integers(0, 9))
def test_values_by_position_mean_the_same_as_by_name(
    call: tuple[str, dict[str, Any]], count: int
) -> None:
    name, values = call
    words = []
    for parameter in list(PARAMETERS[name])[:count]:
        text = _word(values[parameter]) if parameter in values else ""
        key, equals, _ = text.partition("=")
        words.append("" if equals and key.isidentifier() else text)  # only by name
    placed = dict(zip(PARAMETERS[name], words, strict=False))
    rest = [f"{k}={_word(v)}" for k, v in values.items() if not placed.get(k)]
    assert rewritten([f"{name}:{','.join([*words, *rest])}"]) == [expected(name, values)]


@examples(40)
@given(words=st.lists(WORD, max_size=4))
def test_any_words_are_options_or_one_line(words: list[str]) -> None:
    try:
        for name, *options in commands_of(words):
            OFFLOAD.parse(name, options)
    except UsageError as error:
        assert "\n" not in str(error)
        assert str(error)


@examples(40)
@given(call=calls(), other=calls())
def test_two_commands_on_one_line_are_both_called(
    call: tuple[str, dict[str, Any]], other: tuple[str, dict[str, Any]]
) -> None:
    words = [f"{n}:{','.join(f'{k}={_word(v)}' for k, v in vs.items())}" for n, vs in (call, other)]
    assert rewritten(words) == [expected(*call), expected(*other)]


def _word(value: Any) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)
