"""The result of a gate as Markdown, for a comment on a pull request or the summary of a job."""

from __future__ import annotations

import re

from offload.bench.experiments.gate import PASSED, RED, GateResult
from offload.reports.gate import sentences

SIGNS = {PASSED: ":white_check_mark:", RED: ":x:"}
UNDECIDED_SIGN = ":warning:"
SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#&~$])")
MENTION = re.compile(r"@(?=\w)")  # would notify a user
NO_MENTION = "@<!-- -->"
NOT_LITERAL = re.compile(r"[`|\\]")  # characters that a literal in a table cannot have


def markdown(found: GateResult) -> str:
    """Render a heading, a table of the cases, and the remarks in a closed section."""
    sign = SIGNS.get(found.outcome, UNDECIDED_SIGN)
    lines = [f"### {sign} {_plain(sentences.headline(found))}", ""]
    lines += ["| Case | Baseline | Now | Change | Verdict |", "| --- | ---: | ---: | ---: | --- |"]
    for case in found.cases:
        verdict = case.verdict
        why = sentences.reason(found, case)
        cells = (
            _code(case.name),
            sentences.rate(case.baseline),
            sentences.rate(case.now),
            sentences.change(verdict.change),
            verdict.outcome + (f": {_plain(why)}" if why else ""),
        )
        lines.append(f"| {' | '.join(cells)} |")
    if found.condition is not None:
        lines += ["", _plain(sentences.condition(found.condition))]
    lines += ["", "<details><summary>How it was measured</summary>", ""]
    lines += [f"* {_plain(remark)}" for remark in sentences.remarks(found)]
    return "\n".join([*lines, "", "</details>", ""])


def _plain(text: str) -> str:
    """Escape the markup of Markdown and the mentions of GitHub."""
    return MENTION.sub(NO_MENTION, SPECIAL.sub(r"\\\1", " ".join(text.split())))


def _code(text: str) -> str:
    """Return a literal for a cell, or plain text if a literal cannot have these characters."""
    return _plain(text) if NOT_LITERAL.search(text) else f"`{' '.join(text.split())}`"
