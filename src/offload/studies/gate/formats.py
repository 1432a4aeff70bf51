"""The result of a gate in words and in every format, and the files that every gate writes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from xml.etree import ElementTree as ET

from offload import files
from offload.documents import notes, text
from offload.documents.text import TableLine
from offload.engine import journal
from offload.engine.decisions import LOSS, NO_LOSS, UNDECIDED
from offload.engine.figures import Measured
from offload.engine.intervals import GATE, Estimate
from offload.engine.record import Record
from offload.errors import RunError, StorageError, escape_hidden, escaped, printable
from offload.studies.gate.result import PASSED, RED, GatedCase, GateResult
from offload.studies.gate.rule import FAILS, ConditionVerdict
from offload.units import number, percent

DIGITS = 1  # decimal places of a change in percent
LARGEST = 100.0  # ratio: a larger end of an interval, as after two rounds, is not printed
HOLDS = {True: "holds", False: "does not hold", None: "is undecided"}


def headline(found: GateResult) -> str:
    """Return the result as a sentence."""
    limit, against = limit_of(found), found.baseline
    if found.failed:
        what = f"lost more than {limit} of the rate" if has_lost(found) else "failed"
        return f"{_who(found, found.failed, 'all')} {what} against {against}."
    holds = found.condition is None or found.condition.holds
    if holds is False or (holds is None and not found.open):
        return f"The condition {HOLDS[holds]}."
    if found.open:
        return f"No verdict on {_who(found, found.open, 'any of')} against {against}."
    return (
        f"No loss of more than {limit} in {_who(found, found.cases, 'any of')} against {against}."
    )


def has_lost(found: GateResult) -> bool:
    """Whether all failed cases lost too much of their rate, so that none has failing requests."""
    return all(case.verdict.outcome == LOSS for case in found.failed)


def _who(found: GateResult, cases: Sequence[GatedCase], all_words: str) -> str:
    """Return the name of a gate's only case, or how many of its cases a sentence is about."""
    if len(found.cases) == 1:
        return found.cases[0].name
    if len(cases) == len(found.cases):
        return f"{all_words} {len(cases)} cases"
    return f"{len(cases)} of {len(found.cases)} cases"


def named_cases(found: GateResult) -> str:
    """Return the names of the cases that the headline counts, or its condition."""
    holds = found.condition is None or found.condition.holds
    cases = found.failed or ([] if holds is False else found.open)
    if not cases and found.condition is not None:
        return found.condition.text
    return " and ".join(case.name for case in cases) if len(found.cases) > 1 else ""


def limit_of(found: GateResult) -> str:
    """Return the loss that a gate allows, as the user gave it: `5 %`, `2.5 %`, `0.25 %`."""
    return f"{100 * found.terms.loss:.9g} %"


def change_text(ratio: Measured) -> str:
    """Format the change of a rate: `-12.0 % (-15.1 to -8.8)`."""
    if ratio.value is None:
        return "-"
    value, low, high = (100 * (end - 1) for end in (ratio.value, ratio.low, ratio.high))
    if ratio.high > LARGEST:
        return f"{value:+.{DIGITS}f} % (at least {low:+.{DIGITS}f})"
    return f"{value:+.{DIGITS}f} % ({low:+.{DIGITS}f} to {high:+.{DIGITS}f})"


def rate_text(estimate: Estimate) -> str:
    """Format a rate."""
    return "-" if estimate.value is None else f"{number(estimate.value)}/s"


def reason_of(found: GateResult, case: GatedCase) -> str:
    """Return the reason of a verdict and the remedy; empty if the interval is the reason."""
    verdict = case.verdict
    if verdict.reason is not None:
        return ": ".join(part for part in (verdict.reason.message, verdict.reason.remedy) if part)
    if verdict.outcome != UNDECIDED:
        return ""
    if found.kept is not None:
        return "its interval includes the limit"
    limit = limit_of(found)
    is_lower = verdict.change.high < 1
    what = f"its loss is close to {limit}" if is_lower else f"its interval includes {limit}"
    if verdict.more_rounds is None:
        return f"{what}: more rounds will not decide it"
    if verdict.rounds + verdict.more_rounds > GATE.last:
        return f"{what}: the {GATE.last} rounds of a gate will not decide it: increase gate="
    return f"{what}: about {verdict.more_rounds} more rounds may decide it: increase budget="


def condition_text(verdict: ConditionVerdict) -> str:
    """Return whether the condition holds, with its figures."""
    figures = [f"{name} is {figure_text(value)}" for name, value in verdict.figures.items()]
    return f"{verdict.text}: {HOLDS[verdict.holds]}; {', '.join(figures)}"


def figure_text(value: Measured) -> str:
    """Format a figure with its interval: `431.2 (425 to 437.5)`."""
    if value.value is None:
        return "unknown"
    shown, low, high = (_digits(each) for each in (value.value, value.low, value.high))
    if value.high == math.inf:
        known = "its interval is unknown" if value.low in (0, -math.inf) else f"at least {low}"
        return f"{shown} ({known})"
    return f"{shown} ({low} to {high})"


def _digits(value: float) -> str:
    """Format a figure with 4 digits, or a large one without decimal places."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def remarks(found: GateResult) -> Iterator[str]:
    """Yield how the cases were measured, and the warnings."""
    yield from conditions(found)
    yield from flags_of(found)


def flags_of(found: GateResult) -> list[str]:
    """Return the warnings on the windows of both sides of each case."""
    sides = [
        (f"{case.name} {side}", windows)
        for case in found.cases
        for side, windows in (
            ("in the baseline", case.sides.baseline),
            ("now", case.sides.now),
        )
    ]
    return notes.case_warnings(sides)


def conditions(found: GateResult) -> Iterator[str]:
    """Yield how the cases were measured."""
    if found.kept is None:
        rounds = sorted({case.verdict.rounds for case in found.cases})
        span = f"{rounds[0]} to {rounds[-1]}" if len(rounds) > 1 else f"{rounds[0]}"
        yield f"Measured side by side in {span} rounds of fresh servers."
        yield f"What differs: {'; '.join(found.terms.differences)}."
    else:
        yield from _kept_runs(found)
    yield "Change: the rate now over that of the baseline, with its 98 % interval."
    for name in found.left_out:
        yield f"Not compared, because only one run has it: {name}."


def _kept_runs(found: GateResult) -> Iterator[str]:
    """Yield the limits of a comparison of kept runs."""
    assert found.kept is not None
    kept = found.kept
    runs = f"{kept.baseline} and {kept.now}"
    yield f"Two kept runs are compared, {runs}, which were measured at different times."
    least = kept.smallest(found.terms.loss)
    if kept.moved is None or least is None:
        yield "The change of the machine's speed between them is unknown, so there is no verdict."
    else:
        moved = percent(kept.moved, DIGITS)
        yield (
            f"The machine's speed changed by {moved} during and between them. Each interval "
            f"includes this change, so no loss below {percent(least, DIGITS)} can be detected."
        )
    command = "offload compare_runs NAME against=path/to/other/checkout"
    yield f"Side by side, the speed cancels: {command}."


# Text of at most 100 columns


def as_text(found: GateResult) -> str:
    """Render the verdict as a sentence, a table of the cases, and the remarks."""
    parts = [text.wrapped(headline(found)), _table(found)]
    if found.condition is not None:
        parts.append(text.wrapped(condition_text(found.condition)))
    parts.append("\n".join(text.wrapped(line) for line in remarks(found)))
    return "\n\n".join([*parts, f"records: {found.folder}"])


def _table(found: GateResult) -> str:
    head = ["Case", "Baseline", "Now", "Change", "Verdict"]
    rows = [
        (
            rate_text(case.baseline),
            rate_text(case.now),
            change_text(case.verdict.change),
            case.verdict.outcome,
        )
        for case in found.cases
    ]
    most = text.first_column([[*column] for column in zip(head[1:], *rows, strict=True)])
    lines = [
        TableLine((_short_name(case.name, most), *row), reason_of(found, case))
        for case, row in zip(found.cases, rows, strict=True)
    ]
    return text.render_table(head, lines)


def _short_name(case: str, most: int) -> str:
    """Return the name of a case, `most` characters wide at most: its task is shortened."""
    case = escaped(case)
    server, slash, _ = case.partition("/")
    return text.shortened(case, most, server + slash)


# JSON, described by gate.schema.json


def as_json(found: GateResult) -> str:
    """Render the verdict, the cases and the condition as one JSON object."""
    return json.dumps(as_dict(found), indent=2, allow_nan=False) + "\n"


def as_dict(found: GateResult) -> dict[str, object]:
    """Return the verdict, the cases and the condition; unknown values are None."""
    verdict, kept = found.condition, found.kept
    return {
        "verdict": found.outcome,
        "loss_allowed": found.terms.loss,
        "baseline": found.baseline,
        "side_by_side": kept is None,
        "differences": [*found.terms.differences],
        "speed_moved": None if kept is None else kept.moved,
        "smallest_loss": None if kept is None else kept.smallest(found.terms.loss),
        "cases": [_case(found, case) for case in found.cases],
        "ensure": None
        if verdict is None
        else {
            "condition": verdict.text,
            "holds": verdict.holds,
            "figures": {name: _ends(value) for name, value in verdict.figures.items()},
        },
        "left_out": [*found.left_out],
        "flags": flags_of(found),
        "records": str(found.folder),
    }


def _case(found: GateResult, case: GatedCase) -> dict[str, object]:
    verdict = case.verdict
    ratio = _ends(verdict.change)
    return {
        "case": case.name,
        "verdict": verdict.outcome,
        "ratio": ratio["value"],
        "ratio_low": ratio["low"],
        "ratio_high": ratio["high"],
        "rounds": verdict.rounds,
        "more_rounds": verdict.more_rounds,
        "rate": case.now.value,
        "rate_low": case.now.low,
        "rate_high": case.now.high,
        "baseline_rate": case.baseline.value,
        "baseline_rate_low": case.baseline.low,
        "baseline_rate_high": case.baseline.high,
        "reason": reason_of(found, case) or None,
    }


def _ends(value: Measured) -> dict[str, float | None]:
    """Return a figure with its interval; infinite ends are None."""
    ends = {"value": value.value, "low": value.low, "high": value.high}
    return {
        name: end if end is not None and math.isfinite(end) else None for name, end in ends.items()
    }


# Markdown, for a comment on a pull request or the summary of a job


SIGNS = {PASSED: ":white_check_mark:", RED: ":x:"}
UNDECIDED_SIGN = ":warning:"
SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#&~$])")
MENTION = re.compile(r"@(?=\w)")  # would notify a user
NO_MENTION = "@<!-- -->"
NOT_LITERAL = re.compile(r"[`|\\]")  # characters that a literal in a table cannot have


def markdown(found: GateResult) -> str:
    """Render a heading, a table of the cases, and the remarks in a closed section."""
    sign = SIGNS.get(found.outcome, UNDECIDED_SIGN)
    lines = [f"### {sign} {_plain(headline(found))}", ""]
    lines += ["| Case | Baseline | Now | Change | Verdict |", "| --- | ---: | ---: | ---: | --- |"]
    for case in found.cases:
        verdict = case.verdict
        why = reason_of(found, case)
        cells = (
            _code(case.name),
            rate_text(case.baseline),
            rate_text(case.now),
            change_text(verdict.change),
            verdict.outcome + (f": {_plain(why)}" if why else ""),
        )
        lines.append(f"| {' | '.join(cells)} |")
    if found.condition is not None:
        lines += ["", _plain(condition_text(found.condition))]
    lines += ["", "<details><summary>How it was measured</summary>", ""]
    lines += [f"* {_plain(remark)}" for remark in remarks(found)]
    return "\n".join([*lines, "", "</details>", ""])


def _plain(text: str) -> str:
    """Escape the markup of Markdown and the mentions of GitHub."""
    return MENTION.sub(NO_MENTION, SPECIAL.sub(r"\\\1", " ".join(text.split())))


def _code(text: str) -> str:
    """Return a literal for a cell, or plain text if a literal cannot have these characters."""
    return _plain(text) if NOT_LITERAL.search(text) else f"`{' '.join(text.split())}`"


# JUnit XML: a test for each case, and one for the condition


SUITE = "offload.gate"
DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>'
FAILURE, ERROR = "failure", "error"  # a loss; no verdict
KINDS = {LOSS: FAILURE, FAILS: FAILURE, NO_LOSS: None}
CONDITION_KINDS = {True: None, False: FAILURE, None: ERROR}


def junit(found: GateResult) -> str:
    """Render the result; a case without a verdict is an error, because it did not pass."""
    suite = ET.Element("testsuite", {"name": SUITE})
    for case in found.cases:
        _add(suite, case.name, KINDS.get(case.verdict.outcome, ERROR), *_words(found, case))
    if (verdict := found.condition) is not None:
        name, text = verdict.text, condition_text(verdict)
        _add(suite, name, CONDITION_KINDS[verdict.holds], HOLDS[verdict.holds], text)
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
    parts = (change_text(verdict.change), reason_of(found, case))
    rates = f"{rate_text(case.baseline)} in the baseline, {rate_text(case.now)} now"
    return verdict.outcome, "; ".join([rates, *(part for part in parts if part not in ("", "-"))])


def _add(suite: ET.Element, name: str, kind: str | None, outcome: str, text: str) -> None:
    facts = {"classname": SUITE, "name": printable(name), "time": "0"}
    test = ET.SubElement(suite, "testcase", facts)
    if kind is not None:
        found = ET.SubElement(test, kind, {"type": outcome, "message": printable(text)})
        found.text = printable(text)


def _seconds(record: Record) -> float:
    return record.trial.phases.get("load", 0.0)


# The endpoint JSON of a shields.io badge


COLORS = {PASSED: "brightgreen", RED: "red"}
UNDECIDED_COLOR = "lightgrey"


def badge(found: GateResult) -> str:
    """Render the result as a short message."""
    limit = limit_of(found)
    messages = {PASSED: f"no loss above {limit}", RED: _red(found)}
    return (
        json.dumps(
            {
                "schemaVersion": 1,
                "label": "rate",
                "message": messages.get(found.outcome, "undecided"),
                "color": COLORS.get(found.outcome, UNDECIDED_COLOR),
                "isError": found.outcome == RED,
            }
        )
        + "\n"
    )


def _red(found: GateResult) -> str:
    if not found.failed:
        return "condition does not hold"
    state = "slower" if has_lost(found) else "failed"
    return f"{len(found.failed)} of {len(found.cases)} cases {state}"


# Bencher Metric Format: the rate as the measure `throughput` of each case


def bencher(found: GateResult) -> str:
    """Render the current rates in requests/s, with 95 % intervals; unknown rates are omitted."""
    return (
        json.dumps(
            {
                case.name: {
                    "throughput": {
                        "value": case.now.value,
                        **({} if case.now.low is None else {"lower_value": case.now.low}),
                        **({} if case.now.high is None else {"upper_value": case.now.high}),
                    }
                }
                for case in found.cases
                if case.now.value is not None
            },
            indent=2,
        )
        + "\n"
    )


FOLDER = "gate"  # in results/
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")
FORMATS: dict[str, tuple[str, Callable[[GateResult], str]]] = {
    "text": ("gate.txt", lambda found: f"{as_text(found)}\n"),
    "json": ("gate.json", as_json),
    "markdown": ("gate.md", markdown),
    "junit": ("junit.xml", junit),
    "bencher": ("bencher.json", bencher),
    "badge": ("badge.json", badge),
}


def render(found: GateResult, style: str) -> str:
    """Render a result in one of FORMATS.

    Characters of file names that are not valid text, are hidden, or control a terminal are escaped.
    """
    text = FORMATS[style][1](found).encode("utf-8", "backslashreplace").decode()
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", escape_hidden(text))


@contextmanager
def reserved() -> Iterator[None]:
    """Reserve results/gate for one gate; raise RunError if another process has reserved it.

    The results of the previous gate are removed, so that they are not used if this one fails.
    """
    place = folder()
    busy = f"{place} is reserved by a gate of another process"
    with ExitStack() as stack:
        try:
            error = RunError(busy, "wait until it ends, or set RESULTS=folder")
            stack.enter_context(files.locked(place, error))
            for name, _ in FORMATS.values():
                (place / name).unlink(missing_ok=True)
        except OSError as error:
            what = f"{error.filename or place}: {error.strerror}"
            raise StorageError(what, "check permissions") from error
        yield


def publish(found: GateResult) -> None:
    """Write a result in every format to results/gate."""
    place = folder()
    for style, (name, _) in FORMATS.items():
        journal.replace(place / name, render(found, style))


def folder() -> Path:
    """Return results/gate, which is created if needed."""
    path = journal.RESULTS / FOLDER
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"{path}: {error.strerror}"
        raise StorageError(what, "check permissions and disk space") from error
    return path
