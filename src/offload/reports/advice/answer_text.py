"""The answer as text: at most 30 lines of 100 columns, the strategy and its size first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from offload import units
from offload.bench.advice.answer import Answer, Option
from offload.bench.advice.certainty import ACCEPTED_LOSS, LIKELY, PREDICTED, SURE, TIE
from offload.bench.stats.paired_test import DISTURBED
from offload.registry import places
from offload.reports.advice import (
    changes,
    names,
    next_steps,
    prediction,
    reasons,
    response_times,
    warnings,
)
from offload.reports.advice.handlers import Handler
from offload.reports.tables import text_table
from offload.reports.tables.formats import number
from offload.reports.tables.text_table import Line

LINES = 30  # of an answer, without the code of a handler

CERTAINTY = {
    SURE: "Sure. The measurement shows that no other row is faster.",
    LIKELY: "Likely. {open} may be faster: the difference is not certain.",
    TIE: "A tie. There is no clear difference between {tie}; {chosen}.",
    PREDICTED: "Predicted from calls of the function alone. No server was measured.",
    DISTURBED: "Unknown, because the measurement was disturbed.",
}

PREDICTED_TIE = (
    f"{CERTAINTY[PREDICTED]} The predicted rates of {{tie}} differ by at most "
    f"{units.percent(ACCEPTED_LOSS)}; {{chosen}}."
)
SURE_WITHIN_P99 = "Sure. No other row that may meet the required p99 is faster."


def text(
    answer: Answer,
    folder: Path | None = None,
    handler: Handler | None = None,
    width: int = text_table.WIDTH,
) -> str:
    """Render an answer; `folder` is where its records are."""
    first = _first(answer)
    table = text_table.render(_headers(answer), [Line(cells) for cells in _rows(answer)])
    lines = layout(first, table, _paragraphs(answer), folder, width)
    if handler is not None:
        lines += ["", handler.text]
    return "\n".join(lines)


@dataclass(frozen=True)
class Paragraph:
    """A titled paragraph of an answer.

    If an answer has too many lines, its paragraphs are cut in the order of `cut_order`; JSON has
    them whole. None means that it is never cut. `is_kept` is True if the paragraph is also part of
    an answer whose measurement was disturbed.
    """

    title: str
    sentences: Sequence[str]
    cut_order: int | None = None
    is_kept: bool = False


@dataclass(frozen=True)
class Document:
    """The parts of an answer: the advice, its table, and its paragraphs."""

    first: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    paragraphs: Sequence[Paragraph]
    is_disturbed: bool


def document(answer: Answer) -> Document:
    """Return the parts of an answer, for reports with another layout."""
    is_disturbed = answer.disturbed is not None
    return Document(
        _first(answer), _headers(answer), [*_rows(answer)], _paragraphs(answer), is_disturbed
    )


def _first(answer: Answer) -> str:
    task = places.display_name(answer.question.probe.task)
    if answer.disturbed is not None:
        return f"No advice for {task}: {answer.disturbed.message}."
    by = "" if answer.is_measured else ", by prediction"
    return f"Use {_what(answer.chosen)} for {task}{by}."


def layout(
    first: str,
    table: str,
    paragraphs: Sequence[Paragraph],
    folder: Path | None,
    width: int,
    following: int = 0,
) -> list[str]:
    """Return the lines of an answer: the advice, its table, and its paragraphs.

    The caller adds `following` lines. If all lines together are more than LINES, paragraphs are
    cut.
    """
    head = [text_table.wrapped(first, width), "", table, ""]
    wrapped = {
        each.title: text_table.wrapped(f"{each.title}: {' '.join(each.sentences)}", width)
        for each in paragraphs
    }
    last = [] if folder is None else [f"Records: {folder}"]
    count = sum(len(text.splitlines()) for text in wrapped.values()) + len(last) + following
    over = len("\n".join(head).split("\n")) + count - LINES
    orders = {each.title: each.cut_order for each in paragraphs if each.cut_order is not None}
    for title in sorted(orders, key=lambda title: orders[title]):
        lines = wrapped[title].splitlines()
        kept = max(1, len(lines) - max(0, over))
        if kept < len(lines):
            over -= len(lines) - kept
            wrapped[title] = "\n".join([*lines[: kept - 1], _cut(lines[kept - 1], width)])
    return [*head, *wrapped.values(), *last]


def filter_paragraphs(found: Sequence[Paragraph], is_disturbed: bool) -> list[Paragraph]:
    """Return the paragraphs that have sentences; if the measurement was disturbed, only some."""
    return [each for each in found if each.sentences and (each.is_kept or not is_disturbed)]


def _cut(line: str, width: int) -> str:
    """Return a line that ends with " ..." to show that text was cut."""
    mark = " ..."
    if len(line) + len(mark) > width:
        line = line[: width - len(mark)].rpartition(" ")[0]
    return line + mark


def certainty(sure: str, rivals: Sequence[str], tie: Sequence[str], chosen: str) -> str:
    """Return a sentence on the certainty of an answer.

    `rivals` are the options that may be as fast. `tie` are the options without a clear difference,
    and `chosen` is the reason why one of them was chosen.
    """
    if sure == LIKELY and not rivals:
        return "Likely. It could not be compared: nothing else was measured in the same rounds."
    words = PREDICTED_TIE if sure == PREDICTED and len(tie) > 1 else CERTAINTY[sure]
    return words.format(open=names.join_names(rivals), tie=names.join_names(tie), chosen=chosen)


def _certainty(answer: Answer, rivals: Sequence[str], chosen: str) -> str:
    if answer.sure == SURE and len(answer.rivals) < len(answer.others):
        return SURE_WITHIN_P99
    if answer.sure == LIKELY and rivals and reasons.are_rivals_left_out(answer):
        they_are = "it is" if len(rivals) == 1 else "they are"
        left_out = f"Later rounds left out {names.join_names(rivals)}"
        return f"Likely. {left_out}, because {they_are} unlikely to be the fastest."
    return certainty(answer.sure, rivals, answer.tie, chosen)


def _paragraphs(answer: Answer) -> list[Paragraph]:
    """Return the paragraphs of an answer."""
    rivals, chosen = reasons.open_rivals(answer), f"{answer.chosen.strategy} is the simplest"
    p99_s, rate = answer.question.p99_s, answer.chosen.rate.value
    steps = [*next_steps.sentences(answer)]
    found = [
        Paragraph("Response time", [*_response_times(answer)]),
        Paragraph("p99", [*response_times.required_p99(p99_s, rate, answer.chosen.percentiles)]),
        Paragraph("Why", [*reasons.sentences(answer)], cut_order=3),
        Paragraph("Warning", [*warnings.sentences(answer)], cut_order=4, is_kept=True),
        Paragraph("Certainty", [_certainty(answer, rivals, chosen)], is_kept=True),
        Paragraph("Not measured", [*reasons.not_measured(answer)], cut_order=0),
        Paragraph("Prediction", [*prediction.sentences(answer)], cut_order=2, is_kept=True),
        Paragraph("What would change this", [*changes.sentences(answer)], cut_order=1),
        Paragraph("Next", steps[:1], is_kept=True),
        Paragraph("Or", steps[1:]),
    ]
    return filter_paragraphs(found, answer.disturbed is not None)


def _response_times(answer: Answer) -> Iterator[str]:
    """Yield the response times of the chosen candidate, and of the next best if they are known."""
    chosen, other = answer.chosen, answer.next_best
    yield from response_times.sentences(chosen.rate.value, chosen.percentiles)
    if other is not None and chosen.percentiles:
        name = names.option_name(other.strategy, other.workers)
        yield from response_times.sentences(other.rate.value, other.percentiles, f" of {name}")


def _what(option: Option) -> str:
    workers, strategy = option.workers, option.strategy
    if strategy == "loop":
        return "one event loop without workers (loop)"
    kinds = {
        "threads": "{n} thread{s} (threads)",
        "processes": "a pool of {n} process{es} (processes)",
        "pipes": "a pool of {n} process{es} (pipes)",
        "prefork": "{n} server process{es} with one event loop each (prefork)",
    }
    plural = workers != 1
    words = {"n": str(workers), "s": "s" if plural else "", "es": "es" if plural else ""}
    return kinds[strategy].format(**words)


def _headers(answer: Answer) -> list[str]:
    if not answer.is_measured:
        return ["Strategy", "Predicted rate", "Predicted memory"]
    return ["Strategy", "Rate (95 % interval)", "Relative rate", "Memory"]


def _rows(answer: Answer) -> Iterator[list[str]]:
    for option in (answer.chosen, *answer.others):
        name = names.option_name(option.strategy, option.workers)
        is_chosen = option is answer.chosen
        predicted_mib = option.prediction.memory_mib
        predicted = "" if predicted_mib is None else f"{predicted_mib:.0f} MiB"
        if not answer.is_measured:
            yield [name, f"{number(option.prediction.rate)}/s", predicted]
            continue
        memory = f"~{predicted}" if predicted else ""
        if option.memories_mib:
            memory = _range([f"{mib:.0f}" for mib in sorted(option.memories_mib)], " MiB")
        yield [name, _rate(option), "1.00x" if is_chosen else _ratio(option), memory]


def _range(values: Sequence[str], unit: str) -> str:
    """Render the first and the last value; only one of them if they are equal."""
    return " to ".join(dict.fromkeys((values[0], values[-1]))) + unit


def _rate(option: Option) -> str:
    estimate = option.rate
    if estimate.low is None or estimate.high is None:
        return f"{number(estimate.value or 0.0)}/s"
    return f"{number(estimate.value or 0.0)}/s ({number(estimate.low)} to {number(estimate.high)})"


def _ratio(option: Option) -> str:
    verdict = option.compared.verdict if option.compared else None
    if verdict is None or verdict.ratio is None:
        return ""
    return units.ratio(verdict.ratio, verdict.low, verdict.high)
