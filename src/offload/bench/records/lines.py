"""A record as one line of JSON, which is validated when it is read."""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any

from offload import files
from offload.bench.records.record import SCHEMA, Record

LARGEST = 1e20  # number in a record: larger than any measured value in any unit
DEEPEST = 20  # levels of values with any keys: written records have up to 3
RENAMED = {"threads": "runtime_threads", "isolate": "dask_isolate"}  # settings until 0.2
RENAMED_SETTING = re.compile(r"([(,])(threads|isolate)=")
PLAIN = {int: (int,), float: (int, float), str: (str,), bool: (bool,)}


class SchemaError(ValueError):
    """A record that was written by another version of this program."""


def to_line(record: Record) -> str:
    """Return a record as one line of JSON, with `schema` first and without a line break.

    The facts of the machine are omitted, because they are stored in run.json.
    """
    values = asdict(record)
    del values["environment"]
    return json.dumps({"schema": SCHEMA, **values}, allow_nan=False)


def from_line(line: str) -> Record:
    """Parse a record; raise SchemaError for another schema, ValueError for any other error."""
    values = files.parse_json(line)
    if not isinstance(values, dict):
        raise ValueError("it is not a JSON object")
    schema = values.pop("schema", None)
    if schema != SCHEMA:
        raise SchemaError(f"it has schema {repr(schema)[:40]}, and this version reads {SCHEMA}")
    _rename(values)
    record: Record = built(Record, values, "record")
    return record


def _rename(values: dict[str, Any]) -> None:
    """Rename what versions until 0.2 wrote: the program in a command, and some settings."""
    case, server = values.get("case"), values.get("server")
    if isinstance(case, dict):
        for name in ("id", "command"):
            if isinstance(text := case.get(name), str):
                new = RENAMED_SETTING.sub(lambda found: f"{found[1]}{RENAMED[found[2]]}=", text)
                case[name] = new.removeprefix("fab ") if name == "command" else new
    if isinstance(server, dict) and isinstance(known := server.get("settings"), dict):
        server["settings"] = renamed_settings(known)


def renamed_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings of servers with the names that this version has."""
    return {RENAMED.get(name, name): value for name, value in settings.items()}


def built(cls: type, values: Any, name: str, **more: Any) -> Any:
    """Build a dataclass from nested values and `more` fields; unknown fields are ignored."""
    if not isinstance(values, dict):
        raise ValueError(f"{name} is not a JSON object")
    types = _types(cls)
    known = {
        key: _value(types[key], value, f"{name}.{key}")
        for key, value in values.items()
        if key in types
    }
    try:
        return cls(**known, **more)
    except TypeError as error:  # a field without a default is missing
        raise ValueError(f"{name}: {error}") from None


def _value(kind: Any, value: Any, name: str) -> Any:
    """Convert a value to the type of its field; raise ValueError."""
    if isinstance(kind, UnionType):
        if value is None:
            return None
        kind = next(part for part in typing.get_args(kind) if part is not NoneType)
    if is_dataclass(kind):
        return built(typing.cast(type, kind), value, name)
    origin = typing.get_origin(kind) or kind
    if origin is tuple and isinstance(value, list):
        item = typing.get_args(kind)[0]
        return tuple(_value(item, each, name) for each in value)
    if origin is Mapping and isinstance(value, dict):
        if typing.get_args(kind)[1] is object:
            _check_numbers(value, name)
            return value
        item = typing.get_args(kind)[1]
        return {key: _value(item, each, f"{name}.{key}") for key, each in value.items()}
    plain: tuple[type, ...] = PLAIN.get(origin, ())
    is_right = isinstance(value, plain) and isinstance(value, bool) == (origin is bool)
    if not is_right or not _is_plausible(value):
        wanted = getattr(kind, "__name__", kind)
        raise ValueError(f"{name}={str(value)[:40]!r} is not of type {wanted}")
    return value


def _check_numbers(value: object, name: str, depth: int = 1) -> None:
    """Raise ValueError for an implausible number or too deep nesting in values with any keys."""
    if depth > DEEPEST:
        raise ValueError(f"{name} is nested too deeply")
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            _check_numbers(each, name, depth + 1)
    elif not _is_plausible(value):
        raise ValueError(f"{name} has a number that is too large")


def _is_plausible(value: object) -> bool:
    """Whether a value is not a number, or at most LARGEST."""
    return not isinstance(value, int | float) or abs(value) <= LARGEST


@cache
def _types(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {each.name: hints[each.name] for each in fields(cls) if each.name != "environment"}
