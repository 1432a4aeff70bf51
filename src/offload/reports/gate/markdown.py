"""The result of a gate as Markdown, for a comment on a pull request or the summary of a job."""

from __future__ import annotations

import re

from offload.bench.experiments.gate import PASSED, RED, GateResult
from offload.reports.gate import words

SIGNS = {PASSED: ":white_check_mark:", RED: ":x:"}
UNDECIDED_SIGN = ":warning:"
SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#&~])")


def markdown(found: GateResult) -> str:
    """Render a heading, a table of the cases, and what limits the answer in a closed section."""
    sign = SIGNS.get(found.outcome, UNDECIDED_SIGN)
    lines = [f"### {sign} {_plain(words.headline(found))}", ""]
    lines += ["| Case | Baseline | Now | Change | Verdict |", "| --- | ---: | ---: | ---: | --- |"]
    for case in found.cases:
        verdict = case.verdict
        why = words.reason(found, case)
        cells = (
            _code(case.name),
            words.rate(case.baseline),
            words.rate(case.now),
            words.change(verdict.change),
            verdict.outcome + (f": {_plain(why)}" if why else ""),
        )
        lines.append(f"| {' | '.join(cells)} |")
    if found.condition is not None:
        lines += ["", _plain(words.condition(found.condition))]
    lines += ["", "<details><summary>How it was measured</summary>", ""]
    lines += [f"* {_plain(remark)}" for remark in words.remarks(found)]
    return "\n".join([*lines, "", "</details>", ""])


def _plain(text: str) -> str:
    """Escape what Markdown would interpret."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    """Return a literal in a cell: backquotes in it become quotes, and bars are escaped."""
    return f"`{' '.join(text.split()).replace('`', chr(39)).replace('|', chr(92) + '|')}`"
