"""Names and texts of a run are rendered as text, whatever they contain."""

from __future__ import annotations

import functools
import json

from offload.engine.record import Record
from offload.errors import printable
from tests.records import changed
from tests.reports.html.pages import parsed, rendered, tables, words, written
from tests.reports.test_tables import PROCESSES, RECORD, windows

SCRIPT = "<script>alert(1)</script>"
NAMES = [
    SCRIPT,
    "</title><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</svg></script><!--",
    "{{ 7 * 7 }}{% raw %}",
    "a' onclick='alert(1)",
    "]]>&lt;script&gt;&#60;",
    "\x00\x1b[31m\ud800\ufffe",
    "datum['x'] + signal",
    "\u202egnp.exe",
    "zero\u200bwidth\ufeff\u2066\u2028\U000e0041\x9b",
]
HIDDEN = {"\u202e", "\u200b", "\ufeff", "\u2066", "\u2028", "\U000e0041", "\x9b"}


def hostile(name: str) -> list[Record]:
    one = [*windows(RECORD, 10.0, 10.1, 9.9), *windows(PROCESSES, 20.0, 20.1, 19.9)]
    return [
        changed(
            record,
            task=name,
            command=f"run_server:3,{name}",
            flags=[f"kind: {name}: {name}"],
            response_p99_s=0.1,
            environment={"cpu": SCRIPT, "cores": 2, "kernel": SCRIPT},
        )
        for record in one
    ]


@functools.cache
def report() -> str:
    """Return the report of a run with all hostile names."""
    return rendered(
        written(
            "<img src=x onerror=alert(1)>", *(record for name in NAMES for record in hostile(name))
        )
    )


def test_a_name_is_text_in_tables() -> None:
    root = parsed(report())
    scripts = [script.attrib for script in root.iter("script")]
    assert scripts == [{}]
    for element in root.iter():
        assert not any(attribute.startswith("on") for attribute in element.attrib)
        assert element.tag != "img"
    shown = [words(row["Server/task"]) for row in tables(root)["Requests per second"]]
    for name in NAMES:
        plain = " ".join(printable(name).split())
        assert f"threads/{plain}" in shown
        assert f"processes/{plain}" in shown


def test_a_report_has_no_hidden_characters() -> None:
    assert not HIDDEN & {*report()}


def test_a_name_is_text_within_pictures() -> None:
    root = parsed(report())
    pictures = [element for element in root.iter() if str(element.tag).endswith("svg")]
    assert any(SCRIPT in text for picture in pictures for text in picture.itertext())


def test_a_word_of_the_command_is_quoted() -> None:
    folder = written("run", *hostile(SCRIPT))
    known = json.loads((folder / "run.json").read_text())
    argv = ["measure", "3/x;rm -rf ~"]
    (folder / "run.json").write_text(json.dumps({**known, "argv": argv}))
    html = rendered(folder)
    [shown] = {words(code) for code in parsed(html).iter("code")}
    assert shown == "offload measure '3/x;rm -rf ~'"
