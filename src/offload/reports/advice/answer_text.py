"""The answer as text: at most 30 lines of 100 columns, the strategy and its size first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from offload.bench.advice import latency
from offload.bench.advice.answer import Answer, Option
from offload.bench.advice.certainty import LIKELY, PREDICTED, SURE, TIE
from offload.bench.stats.paired_test import DISTURBED
from offload.flags import Flag
from offload.registry import places
from offload.reports.advice import reasons
from offload.reports.advice.handlers import Handler
from offload.reports.tables import text_table
from offload.reports.tables.text_table import Line
from offload.units import percent

CERTAINTY = {
    SURE: "sure. The measurement shows that no other candidate is faster.",
    LIKELY: "likely. {open} may be as fast, as far as this measurement shows.",
    TIE: "a tie. The measurement shows no difference between {tie}; {chosen}.",
    PREDICTED: "predicted from calls of the function alone. No server was measured.",
    DISTURBED: "unknown. The measurement was disturbed: {disturbed}.",
}


def text(
    answer: Answer,
    folder: Path | None = None,
    handler: Handler | None = None,
    width: int = text_table.WIDTH,
) -> str:
    """Render an answer; `folder` is where its records are."""
    first = _first(answer)
    table = text_table.render(_headers(answer), [Line(cells) for cells in _rows(answer)])
    lines = layout(first, table, _parts(answer), folder, width)
    if handler is not None:
        lines += ["", handler.text]
    return "\n".join(lines)


@dataclass(frozen=True)
class Document:
    """An answer in its parts: the advice, its table, and the sentences under each title."""

    first: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    parts: Mapping[str, Sequence[str]]
    is_disturbed: bool


def document(answer: Answer) -> Document:
    """Return the parts of an answer, for a report that arranges them itself."""
    is_disturbed = answer.disturbed is not None
    return Document(
        _first(answer), _headers(answer), [*_rows(answer)], _parts(answer), is_disturbed
    )


def _first(answer: Answer) -> str:
    task = places.display_name(answer.question.probe.task)
    if answer.disturbed is not None:
        return f"No advice for {task}: {answer.disturbed.message}."
    return f"Use {_what(answer.chosen)} for {task}."


def layout(
    first: str, table: str, parts: Mapping[str, Sequence[str]], folder: Path | None, width: int
) -> list[str]:
    """Return the lines of an answer: the advice, its table, and the sentences under each title."""
    lines = [text_table.wrapped(first, width), "", table, ""]
    for title, sentences in parts.items():
        if sentences:
            lines.append(text_table.wrapped(f"{title}: {' '.join(sentences)}", width))
    if folder is not None:
        lines.append(f"records: {folder}")
    return lines


def certainty(
    sure: str, rivals: Sequence[str], tie: Sequence[str], chosen: str, disturbed: Flag | None
) -> str:
    """Return how sure an answer is; `rivals` may be as fast, and of a tie one is `chosen`."""
    return CERTAINTY[sure].format(
        open=reasons.listed(rivals) or "Others",
        tie=reasons.listed(tie),
        chosen=chosen,
        disturbed=disturbed and disturbed.message,
    )


def _parts(answer: Answer) -> dict[str, list[str]]:
    """Return the sentences of an answer by their title."""
    rivals, chosen = reasons.open_rivals(answer), f"{answer.chosen.strategy} is the simplest"
    p99_s, rate = answer.question.p99_s, answer.chosen.rate.value
    return {
        "Why": [*reasons.sentences(answer)],
        "Certainty": [certainty(answer.sure, rivals, answer.tie, chosen, answer.disturbed)],
        "p99": [*reasons.response_times(p99_s, rate, answer.percentiles)],
        "Prediction": [*_prediction(answer)],
        "Would change it": [*reasons.changes(answer)],
        "Next": [reasons.next_step(answer)],
    }


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
        return ["Strategy", "Predicted rate", "Memory"]
    shares = ", ".join(percent(share) for share in latency.LOADS)
    return ["Strategy", "Rate (95 %)", "To the first", f"p95 at {shares} load", "Memory"]


def _rows(answer: Answer) -> Iterator[list[str]]:
    for option in (answer.chosen, *answer.others):
        name = reasons.option_name(option.strategy, option.workers)
        is_chosen = option is answer.chosen
        predicted_mib = option.prediction.memory_mib
        memory = "" if predicted_mib is None else f"~{predicted_mib:.0f} MiB"
        if is_chosen and answer.is_measured and answer.memory_mib is not None:
            memory = f"{answer.memory_mib:.0f} MiB"
        if not answer.is_measured:
            yield [name, f"{option.prediction.rate:.4g}/s", memory]
            continue
        yield [
            name,
            _rate(option),
            "" if is_chosen else _ratio(option),
            reasons.p95(answer.percentiles) if is_chosen else "",
            memory,
        ]


def _rate(option: Option) -> str:
    estimate = option.rate
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.4g}/s"
    return f"{estimate.value:.4g}/s ({estimate.low:.4g} to {estimate.high:.4g})"


def _ratio(option: Option) -> str:
    if option.compared is None or option.compared.verdict.ratio is None:
        return ""
    verdict = option.compared.verdict
    interval = ""
    if verdict.low is not None and verdict.high is not None:
        interval = f" ({verdict.low:.2f} to {verdict.high:.2f})"
    return f"{verdict.ratio:.2f}x{interval}"


def _prediction(answer: Answer) -> Iterator[str]:
    measured, predicted = answer.chosen.rate.value, answer.chosen.prediction.rate
    if measured is None:
        return
    error = predicted / measured - 1
    doubt = ""
    if abs(error) > reasons.FAR:
        doubt = "; the model does not explain this function, so sizes not measured are uncertain"
    difference = f"{percent(abs(error))} {'above' if error > 0 else 'below'} the measurement"
    yield f"{predicted:.4g}/s from the calls alone, {difference}{doubt}."
