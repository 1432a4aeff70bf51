"""The result of a gate as JUnit XML: a test for each case, and one for the condition."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from offload.bench.analysis.gate import FAILS
from offload.bench.experiments.gate import GatedCase, GateResult
from offload.engine.decisions import LOSS, NO_LOSS
from offload.engine.record import Record
from offload.errors import printable
from offload.reports.gate import sentences

SUITE = "offload.gate"
DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>'
FAILURE, ERROR = "failure", "error"  # a loss; no verdict
KINDS = {LOSS: FAILURE, FAILS: FAILURE, NO_LOSS: None}
HOLDS = {True: None, False: FAILURE, None: ERROR}


def junit(found: GateResult) -> str:
    """Render the result; a case without a verdict is an error, because it did not pass."""
    suite = ET.Element("testsuite", {"name": SUITE})
    for case in found.cases:
        _add(suite, case.name, KINDS.get(case.verdict.outcome, ERROR), *_words(found, case))
    if (verdict := found.condition) is not None:
        name, text = verdict.text, sentences.condition(verdict)
        _add(suite, name, HOLDS[verdict.holds], sentences.HOLDS[verdict.holds], text)
    kinds = [child.tag for test in suite for child in test]
    suite.attrib |= {
        "tests": str(len(suite)),
        "failures": str(kinds.count(FAILURE)),
        "errors": str(kinds.count(ERROR)),
        "skipped": "0",
        "time": f"{sum(map(_seconds, found.records)):.3f}",
    }
    if found.records:
        suite.set("timestamp", printable(found.records[-1].trial.utc[:19]))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return f"{DECLARATION}\n{ET.tostring(root, encoding='unicode')}\n"


def _words(found: GateResult, case: GatedCase) -> tuple[str, str]:
    """Return the type of a failure or an error, and its text."""
    verdict = case.verdict
    parts = (sentences.change(verdict.change), sentences.reason(found, case))
    rates = f"{sentences.rate(case.baseline)} in the baseline, {sentences.rate(case.now)} now"
    return verdict.outcome, "; ".join([rates, *(part for part in parts if part not in ("", "-"))])


def _add(suite: ET.Element, name: str, kind: str | None, outcome: str, text: str) -> None:
    facts = {"classname": SUITE, "name": printable(name), "time": "0"}
    test = ET.SubElement(suite, "testcase", facts)
    if kind is not None:
        found = ET.SubElement(test, kind, {"type": outcome, "message": printable(text)})
        found.text = printable(text)


def _seconds(record: Record) -> float:
    return record.trial.phases.get("load", 0.0)
