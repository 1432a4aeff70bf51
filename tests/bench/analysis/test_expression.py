"""Conditions are evaluated on intervals, by a list of allowed syntax; overlap is undecided."""

from __future__ import annotations

import ast
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offload.bench.analysis.expression import Figure, Measured, parse
from offload.bench.analysis.figures import NAMES
from offload.errors import UsageError
from tests.properties import examples

RATE, P99 = Figure("rate", "3/quote"), Figure("p99", "4/quote")
VALUES = {RATE: Measured(110.0, 105.0, 115.0), P99: Measured(0.04, 0.03, 0.06)}


def holds(text: str, values: dict[Figure, Measured] | None = None) -> bool | None:
    return parse(text, NAMES).evaluate(VALUES if values is None else values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rate(3/quote) > 100", True),
        ("rate(3/quote) >= 105", True),
        ("rate(3/quote) > 105", None),
        ("rate(3/quote) > 115", False),
        ("rate(3/quote) >= 115", None),
        ("rate(3/quote) <= 115", True),
        ("rate(3/quote) < 105", False),
        ("rate(3/quote) > 110", None),
        ("rate(3/quote) > 120", False),
        ("rate(3/quote) < 100", False),
        ("100 < rate(3/quote) < 120", True),
        ("100 < rate(3/quote) < 110", None),
        ("120 < rate(3/quote) < 130", False),
        ("p99(4/quote) < 0.05", None),
        ("rate(3/quote) > 100 and p99(4/quote) < 0.05", None),
        ("rate(3/quote) > 120 and p99(4/quote) < 0.05", False),
        ("rate(3/quote) > 100 or p99(4/quote) < 0.05", True),
        ("not rate(3/quote) > 120", True),
        ("not (p99(4/quote) < 0.05)", None),
        ("rate(3/quote) * p99(4/quote) < 7", True),  # 115 x 0.06 = 6.9
        ("rate(3/quote) * p99(4/quote) < 6.8", None),
        ("rate(3/quote) / p99(4/quote) > 1750", None),
        ("rate(3/quote) / p99(4/quote) > 1749", True),
        ("-rate(3/quote) + 1 < -104.5 + 0.5", None),
        ("-rate(3/quote) - +1 < -105.5", True),
        ("1 / (rate(3/quote) - 110) > 0", None),  # divided by an interval around 0
        ("rate('3/quote') > 100", True),
        ('rate("3/quote") > 100', True),
        (" rate( 3/quote ) >100 ", True),
    ],
)
def test_it_is_true_only_if_no_value_of_the_intervals_breaks_it(
    text: str, expected: bool | None
) -> None:
    assert holds(text) is expected


def test_an_unknown_figure_decides_nothing() -> None:
    unknown = {**VALUES, RATE: Measured()}
    assert holds("rate(3/quote) > 0", unknown) is None
    assert holds("rate(3/quote) * 0 < 1", unknown) is None
    assert holds("rate(3/quote) > 0 or p99(4/quote) < 1", unknown) is True


@pytest.mark.parametrize(
    "case",
    ["3x16@3.14/docs.shop:quote", "uvicorn_h11/app=shop.web:create_app()", "4/a:b(@c d.json)"],
)
def test_a_case_needs_no_quotes(case: str) -> None:
    assert parse(f"rate({case}) > 1 and mean({case}) < 2", NAMES).figures == (
        Figure("rate", case),
        Figure("mean", case),
    )


WRONG = {
    "rte(3/quote) > 1": "no 'rte' in the figures of ensure=: did you mean rate?",
    "p98(3/quote) > 1": "did you mean p9",
    "rate(3/quote) > 1 and": "is not an expression (invalid syntax)",
    "rate(3/quote) > 1  # and rte(3/quote) < 2": "has a comment, which begins with #",
    "rate(3/quote": "is not an expression",
    "rate(3/quote)": "compares nothing",
    "rate(3/quote) + 1": "compares nothing",
    "1 < 2": "names no figure of a case",
    "": "is not an expression",
    "rate > 1": "may not have 'rate'",
    "rate() > 1": "needs one case in rate(...)",
    "rate('') > 1": "needs one case in rate(...)",
    "rate('a', 'b') > 1": "needs one case in rate(...)",
    "rate(3/quote) == 1": "may compare by <, <=, > and >= only",
    "rate(3/quote) in (1, 2)": "may compare by",
    "rate(3/quote) > 1 and 2": "has '2' instead of a comparison",
    "(rate(3/quote) > 1) > 1": "instead of a number",
    "not rate(3/quote)": "instead of a comparison",
    "rate(3/quote) > 2 ** 9": "may not have '2 ** 9'",
    "rate(3/quote) > 1e400": "may not have",
    "rate(3/quote) > 10 ** 9": "may not have",
    "rate(3/quote) > True": "may not have 'True'",
    "rate(3/quote) > '1'": "may not have",
    "rate(3/quote) > [1][0]": "may not have '[1][0]'",
    "rate(3/quote) > (lambda: 1)()": "no 'lambda: 1'",
    "rate(3/quote) > x.y": "may not have 'x.y'",
    "__import__('os').system('touch x')": "in the figures of ensure=",
    "(x := rate(3/quote)) > 1": "may not have",
    "rate(3/quote) > 1 if 1 else 2": "may not have",
    "p99(3/quote) < 50ms": "is not an expression",
    "rate(3/quote) > 100and 1 < 2": "is not an expression",
    "rate(3/quote) > " + "1+" * 300 + "1": "has more than 200 parts",
    "rate(3/quote) > " + "1" * 3000: "at most 2000 are allowed",
    "(" * 300 + "rate(3/quote) > 1": "is not an expression",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_condition_is_one_line_and_nothing_is_run(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(text, NAMES)
    assert WRONG[text] in str(raised.value)
    assert "\n" not in str(raised.value)


NODES = st.recursive(
    st.sampled_from(["1", "-2.5", "rate(3/quote)", "p99(4/quote)", "x", "'s'", "rate", "None"]),
    lambda inner: st.builds(
        lambda one, op, other: f"({one} {op} {other})",
        inner,
        st.sampled_from(["+", "-", "*", "/", "<", ">=", "and", "or", "==", "**", "if 1 else"]),
        inner,
    ),
    max_leaves=8,
)


@examples(150)
@given(text=NODES, seed=st.integers(0, 3))
def test_any_text_is_refused_or_true_of_every_value_within(text: str, seed: int) -> None:
    """A decided condition is that of Python for values in the intervals."""
    try:
        condition = parse(text, NAMES)
    except UsageError:
        return
    found = condition.evaluate(VALUES)
    if found is None:
        return
    share = seed / 3
    chosen: dict[str, Any] = {
        figure.name: lambda _, v=value: v.low + share * (v.high - v.low)
        for figure, value in VALUES.items()
    }
    code = compile(ast.Expression(condition.tree), "condition", "eval")
    try:
        assert eval(code, {"__builtins__": {}}, chosen) is found
    except ZeroDivisionError:
        return


def test_an_infinite_end_is_no_error() -> None:
    wide = {RATE: Measured(1.0, 0.0, math.inf), P99: VALUES[P99]}
    assert holds("rate(3/quote) * 2 >= -1", wide) is True
    assert holds("rate(3/quote) - rate(3/quote) < 1", wide) is None
