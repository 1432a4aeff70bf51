"""100 hostile runs: nothing is executed, and each error is one line."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest

from offload.engine import journal
from offload.errors import StorageError
from tests.commands import CompletedCommand, fab_here
from tests.records import changed, leaves
from tests.reports.html.pages import SMALL, committed, parsed, written
from tests.reports.test_tables import RECORD

FEW = 4  # of each kind, one for each format, in make test; make test-all reads all
COUNTS = {"records": 50, "plans": 25, "bytes": 25}
FORMS = ("text", "json", "svg", "html")
PATHS = sorted(leaves().keys() - {"environment"})
CANARY = "canary"
RECORDS = 6  # of the run that is changed
TEXTS = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    f"$(touch {CANARY})",
    f"__import__('os').system('touch {CANARY}')",
    "{{ 7 * 7 }}{% include '/etc/passwd' %}",
    "a\nerror: b\r\x1b]0;c\x07\x9b2J\u2028\u202e\ud800\x00",
    "../../../etc/passwd",
    "file:///etc/passwd",
    "=cmd|'/c calc'!A0",
    "%s%n{0.__class__}",
    "`x`_ .. include:: /etc/passwd\n\n.. raw:: html\n\n   <script>alert(1)</script>",
    "a" * 100_000,
)
VALUES = (
    *TEXTS,
    *(None, True, [], {}, [[]], {"a": {"b": [1]}}, -1, 0, 1e19, -1e19, 2**63, 1e-300, 0.1),
    *({text: text} for text in TEXTS),
    *([text] for text in TEXTS),
)


def of_record(chance: random.Random, values: dict[str, Any]) -> None:
    """Replace some values of a record, or of a part of it."""
    for path in chance.sample(PATHS, chance.randint(1, 6)):
        *parts, name = path.split(".")
        part = values
        for each in parts:
            part = part[each] if isinstance(part.get(each), dict) else {}
        part[name] = chance.choice(VALUES)
    if chance.random() < 0.2:
        values[chance.choice(TEXTS)] = chance.choice(VALUES)


def of_plan(chance: random.Random, values: Any) -> Any:
    """Replace one value at a random place of JSON."""
    if isinstance(values, dict) and values and chance.random() < 0.9:
        key = chance.choice(sorted(values))
        new = chance.choice(TEXTS) if chance.random() < 0.1 else key
        return {**values, new: of_plan(chance, values[key])}
    if isinstance(values, list) and values and chance.random() < 0.9:
        place = chance.randrange(len(values))
        return [*values[:place], of_plan(chance, values[place]), *values[place + 1 :]]
    return chance.choice(VALUES)


def fuzzed(kind: str, number: int) -> dict[str, bytes]:
    """Return the files of a hostile run; the same ones in each test run."""
    chance = random.Random(f"{kind} {number}")
    folder = committed(SMALL)
    lines = journal.decompressed(folder).splitlines(keepends=True)[:RECORDS]
    run_json = (folder / "run.json").read_bytes()
    files = {"records.jsonl": b"".join(lines), "run.json": run_json}
    if kind == "records":
        records = [json.loads(line) for line in files["records.jsonl"].splitlines()]
        for record in chance.sample(records, min(3, len(records))):
            of_record(chance, record)
        files["records.jsonl"] = "\n".join(map(json.dumps, records)).encode() + b"\n"
    elif kind == "plans":
        plan = json.loads(files["run.json"])
        for _ in range(chance.randint(1, 4)):
            plan = of_plan(chance, copy.deepcopy(plan))
        files["run.json"] = json.dumps(plan).encode()
    else:
        name = chance.choice(sorted(files))
        content = bytearray(files[name])
        for _ in range(chance.randint(1, 20)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        files[name] = bytes(content)
    return files


def is_safe(done: CompletedCommand) -> bool:
    """Whether all output is printable, and an error is one line without a traceback."""
    printed = (done.stdout + done.stderr).replace("\n", "")
    unsafe = [c for c in printed if not c.isprintable() and c not in "\u00a0\u202f"]
    lines = done.stderr.splitlines()
    errors = [line for line in lines if not line.startswith("warning: ")]
    if done.returncode == 0:
        return not unsafe and not errors
    is_one = len(errors) == 1 and errors[0].startswith("error: ") and done.stdout == ""
    return not unsafe and is_one and done.returncode == StorageError.exit_code


def has_no_code(html: str) -> bool:
    root = parsed(html)
    scripts = [script.attrib for script in root.iter("script")]
    attributes = [name for element in root.iter() for name in element.attrib]
    return scripts == [{}] and not any(name.startswith("on") for name in attributes)


@pytest.mark.slow
def test_there_are_100_hostile_runs() -> None:
    assert sum(COUNTS.values()) == 100
    runs = {
        tuple(fuzzed(kind, number).values())
        for kind, count in COUNTS.items()
        for number in range(count)
    }
    assert len(runs) > 90


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("kind", "count"),
    [
        *((kind, FEW) for kind in COUNTS),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in COUNTS.items()),
    ],
)
def test_a_hostile_run_is_reported_without_harm(kind: str, count: int) -> None:
    folder = journal.RESULTS / "run"
    folder.mkdir()
    for number in range(count):
        files = fuzzed(kind, number)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        report = folder / "report.html"
        report.unlink(missing_ok=True)
        form = FORMS[number % len(FORMS)]
        journal.warn_once.cache_clear()
        done = fab_here(f"report:run,format={form}")
        assert is_safe(done), (
            number,
            form,
            done.returncode,
            done.stdout[-300:],
            done.stderr[-900:],
        )
        if form == "html" and done.returncode == 0:
            assert has_no_code(report.read_text()), number
        assert {path.name for path in folder.iterdir()} <= {*files, report.name}
    assert [path.name for path in journal.RESULTS.iterdir()] == ["run"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "command",
    [
        "resume:run",
        pytest.param("claims:run=run", marks=pytest.mark.slow),
    ],
)
def test_a_hostile_run_is_read_without_harm(command: str) -> None:
    """`resume` measures the cases of a plan that is valid, so it reads only invalid ones here."""
    folder = journal.RESULTS / "run"
    folder.mkdir()
    for number in range(20):
        kind = "plans" if command == "resume:run" else "records"
        files = fuzzed(kind, number)
        if command == "resume:run":
            plan = json.loads(files["run.json"])
            if isinstance(plan, dict):
                plan[TEXTS[number % len(TEXTS)]] = 1
            files["run.json"] = json.dumps(plan).encode()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        journal.warn_once.cache_clear()
        done = fab_here(command)
        assert is_safe(done), (number, done.returncode, done.stdout[-300:], done.stderr[-900:])


def test_values_that_no_run_has_are_an_error_in_one_line() -> None:
    for name, values, forms in (
        ("upstream", {"upstream": {"no kind": 1}}, ("text", "html")),
        ("request", {"request": {"no field": 1}}, ("text", "html")),
        ("histogram", {"histogram": {"no number": 1}}, ("html",)),
    ):
        written(name, changed(RECORD, **values))
        for form in forms:
            refused = fab_here(f"report:{name},format={form}")
            assert (refused.returncode, refused.stdout) == (StorageError.exit_code, "")
            assert refused.stderr.startswith(f"error: {name} cannot be reported: ")
            assert refused.stderr.count("\n") == 1


def test_a_name_cannot_control_the_terminal() -> None:
    written("run", changed(RECORD, task="\x1b]0;title\x07\x9b2J"))
    for form in ("text", "json"):
        shown = fab_here(f"report:run,format={form}")
        assert shown.returncode == 0
        assert all(letter.isprintable() or letter == "\n" for letter in shown.stdout)
        assert "0;title" in shown.stdout
