"""The generated part of docs/record.rst: the fields of a record, from its dataclasses."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from offload.documents.text import wrapped
from offload.engine.record import Record

JSON = {str: "string", int: "integer", float: "number", bool: "true or false", object: "any value"}
LEFT_OUT = "environment"  # this field of a record is stored in run.json
WHOLE = "The record"  # the section of the record itself


def rst() -> str:
    """Return a section for each dataclass in a record, in the order in which they are nested."""
    places: dict[type, list[str]] = {}
    for path, kind in [(WHOLE, Record), *_nested("", Record)]:
        places.setdefault(kind, []).append(path)
    return "\n\n".join(_section(", ".join(paths), kind) for kind, paths in places.items())


def _nested(path: str, kind: type) -> Iterator[tuple[str, type]]:
    """Yield the path and the type of every nested dataclass."""
    for name, hint in _hints(kind).items():
        for part in _dataclasses(hint):
            yield path + name, part
            yield from _nested(f"{path}{name}.", part)


def _hints(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind) if each.name != LEFT_OUT}


def _section(title: str, kind: type) -> str:
    documented = [each for each in (kind, *kind.__bases__) if is_dataclass(each)]
    text = [wrapped(part) for each in documented for part in _paragraphs(each)]
    return "\n\n".join([f"{title}\n{'-' * len(title)}", *text, _table(_hints(kind))])


def _paragraphs(kind: type) -> Iterator[str]:
    """Return the paragraphs of a docstring with the terms of JSON and the markup of a page."""
    for paragraph in inspect.cleandoc(kind.__doc__ or "").split("\n\n"):
        if not paragraph.startswith(f"`{LEFT_OUT}`"):
            words = re.sub(r"\bNone\b", "null", paragraph)
            yield re.sub(r"`+([^`]+)`+", r"``\1``", words)


def _table(hints: Mapping[str, Any]) -> str:
    rows = [("Field", "Type"), *((f"``{name}``", _json(hint)) for name, hint in hints.items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    bar = "  ".join("=" * width for width in widths)
    head, *others = (f"{name:{widths[0]}}  {value}" for name, value in rows)
    return "\n".join([bar, head, bar, *others, bar])


def _json(hint: Any) -> str:
    """Return the JSON type of a Python type."""
    if is_dataclass(hint):
        return "object, see below"
    parts = typing.get_args(hint)
    if isinstance(hint, types.UnionType):
        first, *others = (_json(part) for part in parts if part is not types.NoneType)
        name, comma, more = first.partition(",")  # of "object, see below"
        return " or ".join([name, *others, f"null{comma}{more}"])
    origin = typing.get_origin(hint)
    if origin is tuple:
        return f"list of {_plural(parts[0])}"
    if origin is not None:  # a mapping
        return "object" if parts[1] is object else f"object of {_plural(parts[1])}"
    return JSON[hint]


def _plural(hint: Any) -> str:
    one = _json(hint)
    return "objects, see below" if is_dataclass(hint) else re.sub(r"^\w+", r"\g<0>s", one)


def _dataclasses(hint: Any) -> Iterator[type]:
    """Yield the dataclasses in a type annotation."""
    if is_dataclass(hint):
        yield typing.cast(type, hint)
    for part in typing.get_args(hint):
        yield from _dataclasses(part)
