"""Every record reads back as it was written, and a line that is none is passed over with a word."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offload.bench.records import journal
from offload.bench.records.record import Record, from_line
from tests import ROOT
from tests.properties import examples

RECORD = Record("run", "threads", "sleep_sync", 25, "fab run_server:3,sleep_sync", "2026-01-01")
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.text(max_size=20)
BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "str": WORDS,
    "int": st.integers(-(2**63), 2**63),
    "float": NUMBERS,
    "bool": st.booleans(),
    "Mapping[str, object]": st.dictionaries(WORDS, st.none() | WORDS | st.integers(), max_size=3),
    "Mapping[str, float]": st.dictionaries(WORDS, NUMBERS, max_size=3),
    "Mapping[str, int]": st.dictionaries(WORDS, st.integers(), max_size=3),
    "Mapping[str, int | None]": st.dictionaries(WORDS, st.none() | st.integers(), max_size=3),
    "tuple[str, ...]": st.lists(WORDS, max_size=3).map(tuple),
    "tuple[int, ...]": st.lists(st.integers(), max_size=3).map(tuple),
    "tuple[float, ...]": st.lists(NUMBERS, max_size=3).map(tuple),
}
TYPES = {f.name: f.type for f in fields(Record)}
OTHER = (None, True, 3, 2.5, "word", [1], {"a": 1})  # a value of JSON of each kind
NEEDED = [f.name for f in fields(Record)][:6]


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Draw a record in which a few fields are not as in RECORD."""
    names = draw(st.lists(st.sampled_from(sorted(TYPES)), max_size=12, unique=True))
    return replace(RECORD, **{name: draw(values(TYPES[name])) for name in names})


def values(kind: str) -> st.SearchStrategy[Any]:
    plain = kind.removesuffix(" | None")
    return BY_TYPE[plain] if plain == kind else st.none() | BY_TYPE[plain]


def kept(folder: Path, data: bytes) -> list[Record]:
    (folder / journal.FILE).write_bytes(data)
    return journal.read(folder)


@examples(100)
@given(record=records())
def test_a_record_reads_back_as_it_was(record: Record) -> None:
    line = record.to_line()
    assert "\n" not in line
    assert from_line(line) == record


def test_the_committed_runs_read_back_as_they_were() -> None:
    for path in (ROOT / "results").glob("example*/records.jsonl"):
        for line in path.read_text().splitlines()[:20]:
            assert json.loads(from_line(line).to_line()).items() >= json.loads(line).items()


@examples(40)
@given(line=st.text(max_size=60) | st.from_regex(r'\{"run": [^}]{0,20}\}'))
def test_any_text_is_a_value_error(line: str) -> None:
    with pytest.raises(ValueError):
        from_line(line)


@examples(40)
@given(record=records(), data=st.data())
def test_a_line_that_breaks_off_is_a_value_error(record: Record, data: st.DataObject) -> None:
    line = record.to_line()
    with pytest.raises(ValueError):
        from_line(line[: data.draw(st.integers(0, len(line) - 1))])


@pytest.mark.parametrize("name", NEEDED)
def test_a_record_without_a_needed_field_is_a_value_error(name: str) -> None:
    values = asdict(RECORD)
    del values[name]
    with pytest.raises(ValueError, match=name):
        from_line(json.dumps(values))


@pytest.mark.parametrize("name", TYPES)
def test_a_value_of_another_type_is_a_value_error_that_names_the_field(name: str) -> None:
    plain = TYPES[name].removesuffix(" | None")
    right = {"str": "word", "int": 3, "float": 2.5, "bool": True}.get(plain)
    for value in OTHER:
        is_none = value is None and plain != TYPES[name]
        is_whole = plain == "float" and value == 3 and value is not True
        is_kind = type(value) is type(right) and right is not None
        is_kind |= isinstance(value, list) and plain.startswith("tuple")
        is_kind |= isinstance(value, dict) and plain.startswith("Mapping")
        line = json.dumps(asdict(RECORD) | {name: value})
        if is_none or is_whole or is_kind:
            assert isinstance(from_line(line), Record)
        else:
            with pytest.raises(ValueError, match=name):
                from_line(line)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_a_number_that_is_none_is_a_value_error(number: str) -> None:
    line = RECORD.to_line().replace('"rate": null', f'"rate": {number}')
    with pytest.raises(ValueError):
        from_line(line)
    with pytest.raises(ValueError):
        replace(RECORD, rate=math.nan).to_line()


def test_a_line_that_is_nested_too_deeply_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="nested"):
        from_line("[" * 100_000)


@examples(40)
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
    line = torn.to_line().encode()
    rest = line[: data.draw(st.integers(1, len(line) - 1))]
    with (tmp_path / journal.FILE).open("ab") as file:
        file.write(rest)
    journal.append(tmp_path, after)
    assert journal.read(tmp_path) == [before, after]
    said = capsys.readouterr().err
    assert said.count("\n") == said.count("warning: ") == 1
    assert f"{journal.FILE}:2 is no record" in said


@examples(40)
@given(record=records(), data=st.data())
def test_any_bytes_in_a_line_cost_no_other_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], record: Record, data: st.DataObject
) -> None:
    line = record.to_line().encode()
    begin = data.draw(st.integers(0, len(line)))
    odd = data.draw(st.binary(min_size=1, max_size=3)).replace(b"\n", b"\r")
    changed = line[:begin] + odd + line[begin + data.draw(st.integers(0, 9)) :]
    good = RECORD.to_line().encode()
    read = kept(tmp_path, b"\n".join([good, changed, good, b""]))
    said = capsys.readouterr().err
    assert [read[0], read[-1]] == [RECORD, RECORD]
    assert said.count("\n") == said.count("warning: ") == 3 - len(read)


def test_a_file_without_a_line_has_no_record_and_no_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kept(tmp_path, b"") == []
    assert journal.count(tmp_path) == 0
    assert capsys.readouterr().err == ""
