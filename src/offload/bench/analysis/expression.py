"""Conditions on measured figures: `rate(3/quote) > 100 and p99(4/quote) < 0.05`.

A condition is parsed by `ast` and evaluated node by node. It may only have comparisons, arithmetic,
`and`, `or`, `not`, numbers and known figures. Figures are intervals. A comparison is true if it
holds for all values in both intervals, false if it holds for none, else undecided (None); `and`,
`or` and `not` are those of Kleene's three-valued logic.
"""

from __future__ import annotations

import ast
import functools
import io
import math
import operator
import re
import tokenize
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from offload.errors import UsageError
from offload.registry.catalog import unknown

LONGEST, MOST_NODES = 2000, 200  # characters, and parts of a condition
LARGEST = 1e300  # number in a condition
EXAMPLE = "write ensure='rate(3/quote) > 100 and p99(4/quote) < 0.05'"
CALL = re.compile(r"\b(?!and\b|or\b|not\b)([A-Za-z_]\w*)\s*\(")


@dataclass(frozen=True)
class Measured:
    """A figure and its interval; without a value it is unknown, and may be any number."""

    value: float | None = None
    low: float = -math.inf
    high: float = math.inf


UNKNOWN = Measured()


@dataclass(frozen=True)
class Figure:
    """A figure of a case; both names are those in the condition."""

    name: str
    case: str

    def __str__(self) -> str:
        """Return the figure as it is written in a condition."""
        return f"{self.name}({self.case})"


@dataclass(frozen=True)
class Condition:
    """A parsed condition: its text, and the figures that it compares."""

    text: str
    figures: tuple[Figure, ...]
    tree: ast.expr

    def evaluate(self, values: Mapping[Figure, Measured]) -> bool | None:
        """Return whether the condition holds; None if the intervals do not decide it."""
        return _truth(self.tree, values)


@functools.lru_cache(maxsize=16)  # a run evaluates the same condition after each round
def parse(text: str, names: tuple[str, ...]) -> Condition:
    """Parse a condition on figures with these `names`; raise UsageError."""
    if len(text) > LONGEST:
        raise UsageError(f"ensure= has {len(text)} characters: at most {LONGEST} are allowed")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # `100and` is valid Python, but probably an error
            quoted = _quoted(text.strip())
            if _has_comment(quoted):  # which would hide a part of the condition
                raise _wrong(text, "has a comment, which begins with #")
            tree = ast.parse(quoted, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        message = getattr(error, "msg", None) or str(error)
        raise _wrong(text, f"is not an expression ({message})") from None
    if len([*ast.walk(tree)]) > MOST_NODES:
        raise _wrong(text, f"has more than {MOST_NODES} parts")
    figures = tuple(dict.fromkeys(_figures(tree, text, names)))
    if not _is_truth(tree, text):
        raise _wrong(text, "compares nothing")
    if not figures:
        raise _wrong(text, "names no figure of a case")
    return Condition(text, figures, tree)


def _has_comment(text: str) -> bool:
    try:
        tokens = [*tokenize.generate_tokens(io.StringIO(text).readline)]
    except tokenize.TokenError:  # `ast` reports the mistake
        return False
    return any(token.type == tokenize.COMMENT for token in tokens)


def _quoted(text: str) -> str:
    """Quote the argument of each figure, because `3x16@3.14/quote` is not valid Python."""
    parts, done = [], 0
    for found in CALL.finditer(text):
        if found.start() < done:
            continue
        end = _closing(text, found.end())
        inside = text[found.end() : end].strip()
        is_bare = bool(inside) and inside[0] not in "'\""
        parts.append(text[done : found.end()])
        parts.append(repr(inside) if is_bare else text[found.end() : end])
        done = end
    return "".join([*parts, text[done:]])


def _closing(text: str, start: int) -> int:
    """Return the index of the parenthesis that closes the one before `start`, or the end."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
    return len(text)


def _figures(tree: ast.expr, text: str, names: Sequence[str]) -> Iterator[Figure]:
    """Yield the figures; raise UsageError for a call of another function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield _figure(node, text, names)


def _figure(node: ast.Call, text: str, names: Sequence[str]) -> Figure:
    name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
    if name not in names:
        raise unknown("the figures of ensure=", name, [*names])
    only = node.args[0] if len(node.args) == 1 and not node.keywords else None
    case = only.value if isinstance(only, ast.Constant) else None
    if not isinstance(case, str) or not case:
        raise _wrong(text, f"needs one case in {name}(...)")
    return Figure(name, case)


COMPARISONS = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)
ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def _is_truth(node: ast.expr, text: str) -> bool:
    """Return True for a node that is true or false, False for a number; else raise UsageError."""
    if isinstance(node, ast.BoolOp):
        return _expect(node.values, text, truths=True)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _expect([node.operand], text, truths=True)
    if isinstance(node, ast.Compare):
        if not all(isinstance(op, COMPARISONS) for op in node.ops):
            raise _wrong(text, "may compare by <, <=, > and >= only: figures are intervals")
        return not _expect([node.left, *node.comparators], text, truths=False)
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        return _expect([node.left, node.right], text, truths=False)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return _expect([node.operand], text, truths=False)
    if isinstance(node, ast.Call) or (isinstance(node, ast.Constant) and _is_number(node.value)):
        return False
    raise _wrong(text, f"may not have {ast.unparse(node)[:60]!r}")


def _expect(parts: Sequence[ast.expr], text: str, truths: bool) -> bool:
    """Return `truths`; raise UsageError unless all parts are true or false, or else numbers."""
    for part in parts:
        if _is_truth(part, text) != truths:
            what = "a comparison" if truths else "a number"
            raise _wrong(text, f"has {ast.unparse(part)[:60]!r} instead of {what}")
    return truths


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and abs(value) < LARGEST  # type: ignore[arg-type]


def _wrong(text: str, what: str) -> UsageError:
    shown = text if len(text) <= 100 else f"{text[:97]}..."
    return UsageError(f"ensure={shown!r} {what}", EXAMPLE)


def _truth(node: ast.expr, values: Mapping[Figure, Measured]) -> bool | None:
    """Evaluate a node that `_is_truth` accepted as true or false."""
    if isinstance(node, ast.UnaryOp):
        inner = _truth(node.operand, values)
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        found = [_truth(part, values) for part in node.values]
        return _kleene(found, decides=isinstance(node.op, ast.Or))
    assert isinstance(node, ast.Compare)
    sides = [_number(each, values) for each in (node.left, *node.comparators)]
    pairs = zip(sides, sides[1:], node.ops, strict=False)
    found = [_compare(one, other, op) for one, other, op in pairs]
    return _kleene(found, decides=False)


def _kleene(found: Sequence[bool | None], decides: bool) -> bool | None:
    """Return `decides` if any part equals it; else None if any part is undecided."""
    if decides in found:
        return decides
    return None if None in found else not decides


def _compare(one: Measured, other: Measured, operation: ast.cmpop) -> bool | None:
    """Compare two intervals by one of COMPARISONS."""
    is_greater = isinstance(operation, ast.Gt | ast.GtE)
    low, high = (other, one) if is_greater else (one, other)
    if isinstance(operation, ast.GtE | ast.LtE):
        is_true, is_false = high.low >= low.high, high.high < low.low
    else:
        is_true, is_false = high.low > low.high, high.high <= low.low
    if is_true:
        return True
    return False if is_false else None


def _number(node: ast.expr, values: Mapping[Figure, Measured]) -> Measured:
    """Evaluate a node that `_is_truth` accepted as a number."""
    if isinstance(node, ast.Constant):
        value = float(node.value)  # type: ignore[arg-type]
        return Measured(value, value, value)
    if isinstance(node, ast.UnaryOp):
        found = _number(node.operand, values)
        return found if isinstance(node.op, ast.UAdd) else _negative(found)
    if isinstance(node, ast.BinOp):
        sides = _number(node.left, values), _number(node.right, values)
        return _combine(ARITHMETIC[type(node.op)], *sides)
    assert isinstance(node, ast.Call)
    return values[_named(node)]


def _named(node: ast.Call) -> Figure:
    """Return the figure of a call that `_figure` accepted."""
    [argument] = node.args
    assert isinstance(node.func, ast.Name)
    assert isinstance(argument, ast.Constant)
    return Figure(node.func.id, str(argument.value))


def _negative(one: Measured) -> Measured:
    return Measured(None if one.value is None else -one.value, -one.high, -one.low)


def _combine(compute: Callable[[float, float], float], one: Measured, other: Measured) -> Measured:
    """Return the smallest and the largest result of all values in both intervals."""
    if compute is operator.truediv and other.low <= 0 <= other.high:
        return UNKNOWN
    ends = [compute(a, b) for a in (one.low, one.high) for b in (other.low, other.high)]
    if any(map(math.isnan, ends)):
        return UNKNOWN
    value = None
    if one.value is not None and other.value is not None:
        value = compute(one.value, other.value)
    return Measured(value, min(ends), max(ends))
