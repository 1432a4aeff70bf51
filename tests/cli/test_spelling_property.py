"""Every spelling of a call passes the same values; invalid arguments print a one-line error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from invoke import Collection, ParseError, Parser

from offload.cli import COMMANDS
from offload.cli.commands import benchmark, cases, load_test, maintain, serve, start, understand
from offload.cli.syntax import NO, YES, parameter_defaults, rewrite
from offload.errors import UsageError
from tests.properties import examples

assert [benchmark, cases, load_test, maintain, serve, start, understand]  # each has commands

PARAMETERS = {name: parameter_defaults(task.body) for name, task in COMMANDS.items()}
TEXT = st.text(st.characters(codec="utf-8", exclude_characters=","), max_size=12)
NAMES = sorted({*PARAMETERS, *(name for known in PARAMETERS.values() for name in known)})
SIGNS = st.sampled_from(["server", "=", ",", ":", "-", "--", "_", "3", "yes", " ", "\n", "é"])
WORD = st.lists(st.sampled_from(NAMES) | SIGNS | st.text(max_size=3), max_size=6).map("".join)


def collection() -> Collection:
    found = Collection(auto_dash_names=False)
    for name, task in COMMANDS.items():
        found.add_task(task, name=name)
    return found


PARSER = Parser(contexts=collection().to_contexts())


def called(words: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return the commands that Fabric's parser finds in rewritten words, with all their values."""
    found = PARSER.parse_argv(rewrite(words, PARAMETERS))
    return [
        (each.name, {name.rstrip("_"): value for name, value in each.as_kwargs.items()})
        for each in found
    ]


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Draw a command and values for the first of its parameters, and for some of the others."""
    name = draw(st.sampled_from(sorted(PARAMETERS)))
    known = PARAMETERS[name]
    given_ = {}
    for parameter in draw(st.lists(st.sampled_from([*known] or [""]), unique=True)):
        if parameter:
            is_bool = isinstance(known[parameter], bool)
            given_[parameter] = draw(st.booleans() if is_bool else TEXT)
    return name, given_


def shown(value: object, draw: Any) -> str:
    if isinstance(value, bool):
        word: str = draw(st.sampled_from(YES if value else NO))
        return draw(st.sampled_from([word, word.upper(), word.title()]))
    return str(value)


@examples(40)
@given(call=calls(), data=st.data())
def test_values_by_name_in_any_order_come_to_the_command_as_they_are(
    call: tuple[str, dict[str, Any]], data: st.DataObject
) -> None:
    name, values = call
    pairs = data.draw(st.permutations([f"{k}={shown(v, data.draw)}" for k, v in values.items()]))
    word = data.draw(st.sampled_from([name, name.replace("_", "-")]))
    [(command, found)] = called([f"{word}:{','.join(pairs)}"])
    assert (command, found) == (name, {**PARAMETERS[name], **values})


@examples(40)
@given(call=calls(), data=st.data())
def test_options_mean_the_same_as_values_by_name(
    call: tuple[str, dict[str, Any]], data: st.DataObject
) -> None:
    name, values = call
    options = []
    for parameter, value in values.items():
        flag = "--" + data.draw(st.sampled_from([parameter, parameter.replace("_", "-")]))
        if isinstance(value, bool):
            options += data.draw(st.sampled_from([[flag] * value, [f"{flag}={_word(value)}"]]))
        elif data.draw(st.booleans()) or not value or value.startswith("-"):
            options.append(f"{flag}={value}")
        else:
            options += [flag, value]
    assert called([name, *options]) == called([f"{name}:{_named(values)}"])


@examples(40)
@given(call=calls(), count=st.integers(0, 9))
def test_values_by_position_mean_the_same_as_by_name(
    call: tuple[str, dict[str, Any]], count: int
) -> None:
    name, values = call
    words = []
    for parameter in list(PARAMETERS[name])[:count]:
        value = values.get(parameter, "")
        text = _word(value)
        key, equals, _ = text.partition("=")
        if equals and key.isidentifier():
            text = ""  # such a value can only be given by name
        words.append(text)
    placed = dict(zip(PARAMETERS[name], words, strict=False))
    rest = {k: v for k, v in values.items() if not placed.get(k)}
    all_words = [*words, *_named(rest).split(",")] if rest else words
    assert called([f"{name}:{','.join(all_words)}"]) == called([f"{name}:{_named(values)}"])


@examples(40)
@given(words=st.lists(WORD, max_size=4))
def test_any_words_are_options_or_one_line(words: list[str]) -> None:
    try:
        rewritten = rewrite(words, PARAMETERS)
    except UsageError as error:
        assert "\n" not in str(error)
        assert str(error)
        return
    assert rewrite(rewritten, PARAMETERS) == rewritten
    try:
        PARSER.parse_argv(rewritten)
    except ParseError as error:
        assert str(error)


@examples(40)
@given(call=calls(), other=calls())
def test_two_commands_on_one_line_are_both_called(
    call: tuple[str, dict[str, Any]], other: tuple[str, dict[str, Any]]
) -> None:
    words = [f"{name}:{_named(values)}" for name, values in (call, other)]
    both = [*called(words[:1]), *called(words[1:])]
    assert called(words) == both
    assert called([*rewrite(words[:1], PARAMETERS), words[1]]) == both


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_one_value_too_many_has_no_place(name: str) -> None:
    known = PARAMETERS[name].values()
    words = ["yes" if isinstance(default, bool) else "x" for default in known]
    rewrite([f"{name}:{','.join(words)}"], PARAMETERS)
    with pytest.raises(UsageError, match="no parameter for 'y'"):
        rewrite([f"{name}:{','.join([*words, 'y'])}"], PARAMETERS)


def _named(values: dict[str, Any]) -> str:
    return ",".join(f"{name}={_word(value)}" for name, value in values.items())


def _word(value: Any) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)
