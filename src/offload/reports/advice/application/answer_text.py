"""The answer for an application as text: at most 30 lines of 100 columns, the server first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from offload import units
from offload.bench.advice import latency
from offload.bench.advice.application.answer import ApplicationAnswer, Option, WorkerMemory
from offload.bench.advice.certainty import LIKELY, TIE
from offload.bench.analysis.application_causes import NOT_FIXABLE, Kind
from offload.registry import catalog, places
from offload.reports import application
from offload.reports.advice import answer_text, response_times
from offload.reports.advice import warnings as function_warnings
from offload.reports.advice.answer_text import Document, Paragraph
from offload.reports.advice.application import changes, deployment
from offload.reports.advice.application.names import option_name, size_name
from offload.reports.advice.next_steps import as_sentence
from offload.reports.tables import text_table
from offload.reports.tables.text_table import Line

MOST_OTHERS = 6  # rows of the table, apart from that of the chosen server
UNKNOWN = "Unknown, because figures that would show one are missing."
MEMORY_GAIN = 0.9  # preload is advised if it reduces the memory of a worker below this share


def text(
    answer: ApplicationAnswer, folder: Path | None = None, width: int = text_table.WIDTH
) -> str:
    """Render an answer; `folder` is where its records are."""
    first = _first(answer)
    table = text_table.render(_headers(), [Line(cells) for cells in _rows(answer)])
    following: list[str] = []
    if answer.disturbed is None and (command := deployment_command(answer)) is not None:
        following = ["", *deployment.wrap(command, width).splitlines()]
    lines = answer_text.layout(first, table, _paragraphs(answer), folder, width, len(following))
    return "\n".join([*lines, *following])


def document(answer: ApplicationAnswer) -> Document:
    """Return the parts of an answer, with the command that serves the application as advised."""
    found = _paragraphs(answer)
    if (command := deployment_command(answer)) is not None:
        found.append(Paragraph("Command", [command]))
    is_disturbed = answer.disturbed is not None
    return Document(_first(answer), _headers(), [*_rows(answer)], found, is_disturbed)


def _first(answer: ApplicationAnswer) -> str:
    request = answer.chosen.case.request
    sent = request.short_form if request else "GET /"
    what = f"{places.display_name(answer.question.work)}, {sent}"
    if answer.disturbed is not None:
        return f"No advice for {what}: {answer.disturbed.message}."
    return f"Use {option_name(answer.chosen)} for {what}."


def deployment_command(answer: ApplicationAnswer) -> str | None:
    """Return the command that serves the application as advised, in one line."""
    if answer.disturbed is not None:
        return None
    return deployment.command(answer.question, answer.chosen, _gains_by_preload(answer))


def causes(answer: ApplicationAnswer) -> list[str]:
    """Return a sentence for each cause; mark those that do not limit the advised size."""
    remaining = {cause.kind for cause in answer.remaining}
    found = []
    for cause in answer.causes:
        text = application.advice(cause, answer.question.users)
        is_over = remaining and cause.kind is not Kind.NOTHING and cause.kind not in remaining
        found.append(text + (" It does not limit the advised size." if is_over else ""))
    return found


def warnings(answer: ApplicationAnswer) -> list[str]:
    """Return warnings about the loads of the advised server."""
    server = option_name(answer.chosen)
    return [
        *function_warnings.of_failed_requests(server, answer.chosen.failed),
        *function_warnings.of_memory(server, answer.question.memory_mib, answer.memory_mib),
    ]


def next_step(answer: ApplicationAnswer) -> str:
    """Return what to do next."""
    if answer.disturbed is not None:
        return as_sentence(answer.disturbed.remedy)
    limits = {cause.kind for cause in answer.remaining or answer.causes}
    if limits - NOT_FIXABLE:
        return "Fix the cause first, then repeat the measurement: the advice will change."
    if answer.sure in (LIKELY, TIE) and _rival(answer) is not None:
        return "If a small difference matters, measure again with more time: budget=300."
    return "Serve it by the command below."


def _rival(answer: ApplicationAnswer) -> Option | None:
    """Return the next best candidate that may be faster than the chosen one."""
    return next((option for option in answer.others if option.may_be_faster), None)


def _headers() -> list[str]:
    shares = ", ".join(f"{100 * share:.0f}" for share in latency.LOADS)
    return ["Server", "Size", "Rate/s (95 %)", "Relative rate", f"p95 at {shares} %", "MiB"]


def _rows(answer: ApplicationAnswer) -> Iterator[list[str]]:
    for option in (answer.chosen, *_other_options(answer)):
        is_chosen = option is answer.chosen
        memory = "" if option.memory_mib is None else f"~{option.memory_mib:.0f}"
        if is_chosen and answer.memory_mib is not None:
            memory = f"{answer.memory_mib:.0f}"
        size = option.size
        yield [
            option.case.server,
            f"{size.processes}" if size.threads is None else f"{size.processes} x {size.threads}",
            _rate(option),
            "1.00x" if is_chosen else _ratio(option),
            response_times.p95(answer.percentiles) if is_chosen else "",
            memory,
        ]


def _other_options(answer: ApplicationAnswer) -> list[Option]:
    """Return the best other options by rate, with at least one other server if there is any."""
    kept, own = [*answer.others[:MOST_OTHERS]], answer.chosen.case.server
    another = next((o for o in answer.others if o.case.server != own), None)
    if another is not None and all(o.case.server == own for o in kept):
        kept[-1] = another
    return kept


def _rate(option: Option) -> str:
    found = option.rate
    if found.low is None or found.high is None:
        return _number(found.value or 0.0)
    return f"{_number(found.value or 0.0)} ({_number(found.low)} to {_number(found.high)})"


def _number(rate: float) -> str:
    return f"{rate:.0f}" if rate >= 1000 else f"{rate:.4g}"


def _ratio(option: Option) -> str:
    if option.share is None:
        return ""
    verdict = option.compared.verdict if option.compared else None
    if verdict is None or verdict.ratio is None or verdict.low is None:
        return f"~{units.ratio(option.share)}"
    return units.ratio(verdict.ratio, verdict.low, verdict.high)


def _paragraphs(answer: ApplicationAnswer) -> list[Paragraph]:
    """Return the paragraphs of an answer."""
    p99_s, rate = answer.question.p99_s, answer.chosen.rate.value
    found_causes = _capitalize(causes(answer)) or [UNKNOWN]
    failures = [*dict.fromkeys(f"{each.text}." for each in answer.problems[:2])]
    found = [
        Paragraph(_title(answer), found_causes, cut_order=5, is_kept=True),
        Paragraph("Size", [_size(answer)]),
        Paragraph("Memory", [*_memory(answer)]),
        Paragraph("Warning", warnings(answer), cut_order=4, is_kept=True),
        Paragraph("p99", [*response_times.required_p99(p99_s, rate, answer.percentiles)]),
        Paragraph("Certainty", [_certainty(answer)], is_kept=True),
        Paragraph("Not measured", failures, cut_order=0),
        Paragraph("Prediction", [*changes.prediction(answer)], cut_order=2),
        Paragraph("What would change this", [*changes.sentences(answer)], cut_order=1),
        Paragraph("Next", [next_step(answer)], is_kept=True),
    ]
    return answer_text.filter_paragraphs(found, answer.disturbed is not None)


def _title(answer: ApplicationAnswer) -> str:
    title = "Cause" if len(answer.causes) < 2 else "Causes"
    return title if answer.disturbed is None else f"Possible {title.lower()}"


def _capitalize(found: list[str]) -> list[str]:
    return [f"{each[0].upper()}{each[1:]}" for each in found]


def _certainty(answer: ApplicationAnswer) -> str:
    rivals = [option_name(option) for option in answer.others if option.may_be_faster][:3]
    why = (
        f"{answer.chosen.case.server} is chosen: fewest processes, then fewest threads, then the "
        "most common server"
    )
    return answer_text.certainty(answer.sure, rivals, answer.tie, why)


def _size(answer: ApplicationAnswer) -> str:
    if not answer.larger:
        return "A larger one was not measured."
    name = size_name(answer.chosen.case.server, answer.chosen.size)
    if answer.gains_nothing_beyond:
        return f"A larger size than {name} gains nothing."
    return f"A larger size than {name} may be faster: the difference is not certain."


def _memory(answer: ApplicationAnswer) -> Iterator[str]:
    if answer.worker is None or answer.worker.pss_mib is None:
        return
    yield f"{_mib(answer.worker)}."
    preloaded = answer.preloaded
    if preloaded is not None and preloaded.pss_mib is not None:
        gains = "" if _gains_by_preload(answer) else " Preload saves little."
        yield f"With the application imported before the fork (preload): {_mib(preloaded)}.{gains}"
    elif not catalog.find_server(answer.chosen.case.server).can_preload:
        yield f"{answer.chosen.case.server} cannot preload."
    else:
        yield "Its memory with preload was not measured."


def _mib(found: WorkerMemory) -> str:
    private = "" if found.private_mib is None else f", {found.private_mib:.0f} MiB of it private"
    return f"{found.pss_mib or 0.0:.0f} MiB per worker (PSS){private}"


def _gains_by_preload(answer: ApplicationAnswer) -> bool:
    """Whether a preloaded worker needs less than MEMORY_GAIN of the memory."""
    one, other = answer.worker, answer.preloaded
    if one is None or other is None or one.pss_mib is None or other.pss_mib is None:
        return False
    return answer.chosen.size.processes > 1 and other.pss_mib < MEMORY_GAIN * one.pss_mib
