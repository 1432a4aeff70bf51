"""The answer of a run in words: what was measured, the verdicts, and the notes on its figures.

The sentences are those of the text reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from offload.documents import BAD, GOOD, PLAIN, UNCLEAR, Document, Finding
from offload.documents.rows import case_name, conditions, rate_text
from offload.engine import decisions
from offload.engine.figures import Comparison
from offload.registry import catalog
from offload.reports.claims import verdicts
from offload.reports.gil import effects
from offload.reports.gil.effects import Effect
from offload.reports.html.parts import Table, table, text
from offload.reports.html.run import MeasuredRun

TONES = {
    decisions.FASTER: GOOD,
    decisions.SLOWER: BAD,
    decisions.UNRESOLVED: UNCLEAR,
    decisions.DISTURBED: UNCLEAR,
}
CLAIM_TONES = {decisions.HOLDS: GOOD, decisions.DOES_NOT: BAD}


@dataclass(frozen=True)
class Answer:
    """The `scope` of a run, its answer, the command to repeat it, and `where` it was measured."""

    scope: tuple[str, ...]
    command: str | None
    verdicts: tuple[Finding, ...]
    tables: tuple[Table, ...]
    where: tuple[str, ...]
    notes: tuple[str, ...]


def of_run(run: MeasuredRun) -> Answer:
    """Return the answer of a run."""
    found, tables = _verdicts(run)
    return Answer(
        tuple(_scope(run)),
        run.command,
        tuple(found),
        tuple(tables),
        tuple(dict.fromkeys(conditions(group) for group in run.groups)),
        tuple(dict.fromkeys(_notes(run))),
    )


def compared_effects(run: MeasuredRun) -> list[tuple[str, str, Effect]]:
    """Return each task with its group, its description, and its effect, one group after another."""
    return [
        (f"{effect.threads.first.case.task}{run.group_name(group)}", what, effect)
        for group in run.groups
        for found in [effects.effects(group)]
        for what, effect in zip(effects.descriptions(found), found, strict=True)
    ]


def _scope(run: MeasuredRun) -> Iterator[str]:
    """Yield what the run measured, in sentences."""
    for suite in run.suites:
        yield catalog.suites()[suite].summary
    cases = list(dict.fromkeys(case_name(row.first) for row in run.rows))
    if not run.suites and len(cases) <= 2:
        yield f"{' and '.join(cases)}."
    rounds = max((row.estimate.n for row in run.rows if row.estimate is not None), default=0)
    measured = f"{len(run.rows)} row{'s' if len(run.rows) > 1 else ''}"
    several = f"{rounds} round{'s' if rounds > 1 else ''} of fresh servers at most"
    yield f"{measured}, {several}." if rounds else f"{measured}."


def _verdicts(run: MeasuredRun) -> tuple[list[Finding], list[Table]]:
    if run.document is not None:
        return _document(run.document, f"Figures of {run.name}")
    found = [*_effects(run), *_on_and_off(run)]
    found += _claims(run, with_each=not found)
    return found or [*_rates(run)], []


def _effects(run: MeasuredRun) -> Iterator[Finding]:
    for name, what, effect in compared_effects(run):
        words = f"{what}. " if what else ""
        yield Finding(
            _sentence(f"{words}{effect.reading}"),
            name,
            effects.ratio_text(effect),
            _tone(effect.comparison),
        )


def _on_and_off(run: MeasuredRun) -> Iterator[Finding]:
    for pair in effects.on_and_off_pairs(run.rows):
        case = pair.on.first.case
        ratio = effects.on_and_off_ratio_text(pair)
        yield Finding(
            _sentence(pair.sentence), f"{case.server}, {case.task}", ratio, _tone(pair.comparison)
        )


def _claims(run: MeasuredRun, with_each: bool) -> Iterator[Finding]:
    """Yield how many claims hold and, if `with_each` is true, the verdict on each claim."""
    for suite, found in run.claims.items():
        yield Finding(verdicts.counted(found), f"Claims about {suite}")
        for verdict in found if with_each else ():
            here = verdicts.figures(verdict)[1].removeprefix("-")
            words = _sentence(f"{verdict.statement}: {verdict.verdict}; {verdict.reason}")
            yield Finding(words, verdict.claim, here, CLAIM_TONES.get(verdict.verdict, UNCLEAR))


def _rates(run: MeasuredRun) -> Iterator[Finding]:
    """Yield the rates of the first rows, for a run without comparisons."""
    for row in run.rows[:6]:
        name = case_name(row.first)
        if row.problem is not None:
            yield Finding(_sentence(str(row.problem)), name, tone=BAD)
        else:
            yield Finding("", name, f"{rate_text(row)} requests/s")


def _document(found: Document, title: str) -> tuple[list[Finding], list[Table]]:
    tone = UNCLEAR if not found.has_verdict else GOOD if found.is_good else BAD
    verdicts = [Finding(found.headline, tone=tone), *found.findings]
    verdicts += [Finding(" ".join(each.sentences), name=each.title) for each in found.paragraphs]
    verdicts += [Finding(found.command.line, name=found.command.title)] if found.command else []
    cells = [tuple(text(cell) for cell in row) for row in found.rows]
    return verdicts, [table(title, found.head, cells)] if cells else []


def _notes(run: MeasuredRun) -> Iterator[str]:
    if run.document is not None and not run.document.shows_cases:
        return  # it has its own
    flags = run.results["flags"]
    yield from (str(flag) for flag in flags) if isinstance(flags, list) else ()
    for group in run.groups:
        yield from effects.remedies(effects.effects(group))


def _tone(compared: Comparison) -> str:
    return TONES.get(compared.verdict.outcome, PLAIN)


def _sentence(words: str) -> str:
    """Return a text as a sentence: add a full stop if it has no final punctuation."""
    return words if words.endswith((".", "!", "?")) else f"{words}."
