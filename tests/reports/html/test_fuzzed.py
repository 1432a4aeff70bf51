"""100 hostile records and reports: nothing is executed, and each error is one line."""

from __future__ import annotations

import base64
import copy
import json
import lzma
import random
import re
from pathlib import Path
from typing import Any

import pytest

from offload.bench.records import journal
from offload.errors import StorageError
from offload.reports.html import run_files
from tests.commands import CompletedCommand, fab_here
from tests.records import leaves
from tests.reports.html.pages import SMALL, committed, parsed, plain

pytestmark = pytest.mark.usefixtures("without_pictures")
ELEMENT = re.compile(rf'(<script type="{run_files.TYPE}" id="{run_files.ID}">)([^<]*)(</script>)')
FEW = 4  # of each kind, one for each format, in make test; make test-all reads all
COUNTS = {"records": 40, "plans": 20, "bytes": 20, "heads": 20}
FORMS = ("text", "json", "rst", "html")
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


def report_of(files: dict[str, bytes], name: str = "run") -> str:
    head = {"format": run_files.FORMAT, "version": run_files.VERSION}
    sizes = {file: len(content) for file, content in files.items()}
    runs = [{"name": name, "files": sizes}]
    packed = json.dumps({**head, "runs": runs}).encode() + b"\n" + b"".join(files.values())
    text = base64.b64encode(lzma.compress(packed)).decode()
    return ELEMENT.sub(rf"\g<1>{text}\g<3>", plain(SMALL))


def fuzzed(kind: str, number: int) -> tuple[str, dict[str, bytes]]:
    """Return a hostile report, and the files inside; the same ones in each run."""
    chance = random.Random(f"{kind} {number}")
    folder = committed(SMALL)
    lines = journal.read_lines(folder).splitlines(keepends=True)[:RECORDS]
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
    elif kind == "heads":
        name = f"{chance.choice(TEXTS)}{number}" if number else ""
        return report_of(files, name), files
    else:
        name = chance.choice(sorted(files))
        content = bytearray(files[name])
        for _ in range(chance.randint(1, 20)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        files[name] = bytes(content)
    return report_of(files), files


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
    is_ours = scripts == [{"type": run_files.TYPE, "id": run_files.ID}, {}]
    return is_ours and not any(name.startswith("on") for name in attributes)


@pytest.mark.slow
def test_there_are_100_hostile_reports() -> None:
    assert sum(COUNTS.values()) == 100
    names = {fuzzed(kind, number)[0] for kind, count in COUNTS.items() for number in range(count)}
    assert len(names) > 90


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("kind", "count"),
    [
        *((kind, FEW) for kind in COUNTS),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in COUNTS.items()),
    ],
)
def test_a_hostile_report_is_read_without_harm(
    kind: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    for number in range(count):
        html, _ = fuzzed(kind, number)
        path.write_text(html)
        form = FORMS[number % len(FORMS)]
        journal.warn_once.cache_clear()
        done = fab_here(f"report:{path},format={form}")
        assert is_safe(done), (
            number,
            form,
            done.returncode,
            done.stdout[-300:],
            done.stderr[-900:],
        )
        if form == "html" and done.returncode == 0:
            assert has_no_code(path.read_text()), number
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "command",
    [
        "resume:run",
        *(pytest.param(c, marks=pytest.mark.slow) for c in ("report:run", "claims:run=run")),
    ],
)
def test_a_hostile_run_in_the_results_is_read_without_harm(command: str) -> None:
    """`resume` measures the cases of a plan that is valid, so it reads only invalid ones here."""
    folder = journal.RESULTS / "run"
    folder.mkdir()
    for number in range(20):
        kind = "plans" if command == "resume:run" else "records"
        _, files = fuzzed(kind, number)
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
