"""Every record reads back unchanged; an invalid line is skipped with a warning."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offload.engine import journal
from offload.engine.application import HotLine, Route, Who
from offload.engine.record import Record, from_line, to_line
from offload.errors import Flag, Problem, StorageError
from offload.files import LARGEST
from offload.loads import HostRun
from tests import ROOT
from tests.properties import examples
from tests.records import changed, leaves, record_of, set_path

RECORD = record_of("run", "threads", "sleep_sync", 25, "run_server:3,sleep_sync", "2026-01-01")
NUMBERS = st.floats(-LARGEST, LARGEST)
WORDS = st.text(max_size=20)
SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    str: WORDS,
    int: st.integers(-(2**63), 2**63),
    float: NUMBERS,
    bool: st.booleans(),
    object: st.none() | WORDS | st.integers(-(2**63), 2**63),
    Flag: st.builds(Flag, WORDS, WORDS, WORDS),
    Problem: st.builds(Problem, WORDS, WORDS, WORDS),
    HostRun: st.builds(
        HostRun,
        WORDS,
        st.integers(0, 9),
        ahead_s=st.none() | NUMBERS,
        bound_s=st.none() | NUMBERS,
        completed=st.none() | st.integers(0, 9),
        problem=st.none() | WORDS,
    ),
    Route: st.builds(Route, WORDS, st.integers(0, 9), st.none() | NUMBERS),
    Who: st.builds(
        Who,
        st.builds(HotLine, WORDS, WORDS, st.integers(0, 9), NUMBERS, WORDS, st.none() | WORDS).map(
            lambda line: (line,)
        ),
        st.none() | WORDS,
    ),
}
TYPES = {path: kind for path, kind in leaves().items() if path != "environment"}
OTHER = (None, True, 3, 2.5, "word", [1], {"a": 1})  # a value of JSON of each kind
HOSTILE = "a\nerror: b\x1b]0;c\x07\x9b2J\u2028\u202e"
NEEDED = ["trial.run", "trial.utc", *(f"case.{n}" for n in ("id", "server", "task", "users"))]


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Draw a record in which a few fields are not as in RECORD."""
    record = RECORD
    paths = sorted(TYPES.keys() - {"trial.machine"})  # which the journal sets
    for path in draw(st.lists(st.sampled_from(paths), max_size=12, unique=True)):
        record = set_path(record, path.split("."), draw(values(TYPES[path])))
    return record


def values(kind: Any) -> st.SearchStrategy[Any]:
    if isinstance(kind, UnionType):
        return st.one_of([values(part) for part in get_args(kind)])
    if kind is NoneType:
        return st.none()
    if get_origin(kind) is tuple:
        return st.lists(values(get_args(kind)[0]), max_size=3).map(tuple)
    if get_origin(kind) is Mapping:
        return st.dictionaries(WORDS, values(get_args(kind)[1]), max_size=3)
    if is_dataclass(kind) and kind not in SIMPLE:
        hints = get_type_hints(kind)
        return st.builds(kind, **{each.name: values(hints[each.name]) for each in fields(kind)})
    return SIMPLE[kind]


def accepts(kind: Any, value: object) -> bool:
    """Whether JSON may have a value where a field has a type."""
    if isinstance(kind, UnionType):
        return any(accepts(part, value) for part in get_args(kind))
    if get_origin(kind) is tuple:
        return value == [1] and get_args(kind)[0] in (int, float)
    if get_origin(kind) is Mapping or (is_dataclass(kind) and not _needed(kind)):
        return isinstance(value, dict)
    if kind is NoneType:
        return value is None
    return type(value) is kind or (kind is float and type(value) is int)


def _needed(kind: Any) -> bool:
    """Whether a dataclass has a field without a default."""
    return any(each.default is each.default_factory for each in fields(kind))  # both are MISSING


def nested(values: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    """Return the part of a record's JSON that has a field, and the field's name there."""
    *parts, name = path.split(".")
    for part in parts:
        values = values[part]
    return values, name


def kept(folder: Path, data: bytes) -> list[Record]:
    (folder / journal.FILE).write_bytes(data)
    return journal.read(folder)


@examples(50)
@given(record=records())
def test_a_record_reads_back_as_it_was(record: Record) -> None:
    line = to_line(record)
    assert "\n" not in line
    assert from_line(line) == record


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """List the values of an old record that a new one lacks or has otherwise."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [] if old == new else [path]
    return [
        d for key, value in old.items() for d in differences(value, new.get(key), f"{path}.{key}")
    ]


def test_the_committed_runs_keep_what_they_had_when_they_are_read_back() -> None:
    folders = [*(ROOT / "results").glob("example*")]
    assert len(folders) >= 7
    for folder in folders:
        for line in journal.decompressed(folder).decode().splitlines()[:20]:
            written = json.loads(line)
            assert differences(written, json.loads(to_line(from_line(line)))) == []


@examples(25)
@given(line=st.text(max_size=60) | st.from_regex(r'\{"run": [^}]{0,20}\}'))
def test_any_text_is_a_value_error(line: str) -> None:
    with pytest.raises(ValueError):
        from_line(line)


@examples(25)
@given(record=records(), data=st.data())
def test_a_line_that_breaks_off_is_a_value_error(record: Record, data: st.DataObject) -> None:
    line = to_line(record)
    with pytest.raises(ValueError):
        from_line(line[: data.draw(st.integers(0, len(line) - 1))])


@pytest.mark.parametrize("path", NEEDED)
def test_a_record_without_a_needed_field_is_a_value_error(path: str) -> None:
    values = json.loads(to_line(RECORD))
    part, name = nested(values, path)
    del part[name]
    with pytest.raises(ValueError, match=name):
        from_line(json.dumps(values))


@pytest.mark.parametrize("path", TYPES)
def test_a_value_of_another_type_is_a_value_error_that_names_the_field(path: str) -> None:
    for value in OTHER:
        values = json.loads(to_line(RECORD))
        part, name = nested(values, path)
        part[name] = value
        line = json.dumps(values)
        if accepts(TYPES[path], value):
            assert isinstance(from_line(line), Record)
        else:
            with pytest.raises(ValueError, match=name):
                from_line(line)


@pytest.mark.parametrize("schema", [None, 3, 5, "4"])
def test_another_schema_is_refused_in_a_sentence(tmp_path: Path, schema: object) -> None:
    values = json.loads(to_line(RECORD)) | {"schema": schema}
    (tmp_path / journal.FILE).write_text(json.dumps(values) + "\n")
    expected = (
        rf"records\.jsonl:1: it has schema {schema!r}, and this version reads 4: measure again"
    )
    with pytest.raises(StorageError, match=expected):
        journal.read(tmp_path)


@pytest.mark.parametrize("number", ["1e21", "-1e21", f"1{'0' * 400}"])
@pytest.mark.parametrize("place", ['"rate": null', '"settings": {}'])
def test_a_number_that_is_too_large_to_calculate_with_is_a_value_error(
    number: str, place: str
) -> None:
    name = place.partition(":")[0]
    value = number if "null" in place else f'{{"any": [{{"name": {number}}}]}}'
    line = to_line(RECORD)
    assert place in line
    with pytest.raises(ValueError, match=rf"^{number[:40]} is not a valid number"):
        from_line(line.replace(place, f"{name}: {value}"))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_a_number_that_is_none_is_a_value_error(number: str) -> None:
    line = to_line(RECORD).replace('"rate": null', f'"rate": {number}')
    with pytest.raises(ValueError):
        from_line(line)
    with pytest.raises(ValueError):
        to_line(changed(RECORD, rate=math.nan))


def test_a_line_that_is_nested_too_deeply_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="nested"):
        from_line("[" * 100_000)


@examples(25)
@given(before=records(), torn=records(), after=records(), data=st.data())
def test_what_a_crash_left_of_a_line_costs_that_line_alone_and_one_warning(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    before: Record,
    torn: Record,
    after: Record,
    data: st.DataObject,
) -> None:
    (tmp_path / journal.FILE).unlink(missing_ok=True)
    journal.append(tmp_path, before)
    line = to_line(torn).encode()
    rest = line[: data.draw(st.integers(1, len(line) - 1))]
    with (tmp_path / journal.FILE).open("ab") as file:
        file.write(rest)
    journal.append(tmp_path, after)
    journal.warn_once.cache_clear()
    assert journal.read(tmp_path) == [before, after]
    warnings = capsys.readouterr().err
    assert warnings.count("\n") == warnings.count("warning: ") == 1
    assert f"{journal.FILE}:2 is not a record" in warnings


@examples(25)
@given(record=records(), data=st.data())
def test_any_bytes_in_a_line_cost_no_other_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], record: Record, data: st.DataObject
) -> None:
    line = to_line(record).encode()
    begin = data.draw(st.integers(len('{"schema": 4,'), len(line)))
    odd = data.draw(st.binary(min_size=1, max_size=3)).replace(b"\n", b"\r")
    mixed = line[:begin] + odd + line[begin + data.draw(st.integers(0, 9)) :]
    good = to_line(RECORD).encode()
    journal.warn_once.cache_clear()
    read = kept(tmp_path, b"\n".join([good, mixed, good, b""]))
    warnings = capsys.readouterr().err
    assert [read[0], read[-1]] == [RECORD, RECORD]
    assert warnings.count("\n") == warnings.count("warning: ") == 3 - len(read)


def test_names_in_a_record_cannot_control_the_terminal_or_add_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key may have any characters."""
    values = json.loads(to_line(RECORD))
    values["trial"]["phases"] = {HOSTILE: "long"}
    assert kept(tmp_path, json.dumps(values).encode()) == []
    warning = capsys.readouterr().err
    assert warning.count("\n") == 1
    assert warning.removesuffix("\n").isprintable()
    assert "Expected `float`" in warning


def test_a_file_without_a_line_has_no_record_and_no_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kept(tmp_path, b"") == []
    assert journal.count(tmp_path) == 0
    assert capsys.readouterr().err == ""
