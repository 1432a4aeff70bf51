"""What compares rows: the verdict on two cases, the GIL effects, and one Python without its GIL.

Each compares the windows of the same rounds. A GIL effect is one task in threads and in processes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from offload import units
from offload.documents import notes
from offload.documents.rows import (
    Row,
    case_name,
    gil_enabled_by,
    origin_of,
    provenance_of,
    request_of,
    share_text,
)
from offload.documents.text import (
    TableLine,
    first_column,
    paragraphs,
    render_table,
    shortened,
    wrapped,
)
from offload.engine import decisions, figures
from offload.engine.decisions import Verdict
from offload.engine.figures import ComparedCases, Comparison, compare_windows, estimate_rate
from offload.engine.record import TEST, Record, RunRecords
from offload.errors import UserError
from offload.registry import catalog

SENTENCES = {
    decisions.FASTER: "{other} is faster than {one}",
    decisions.SLOWER: "{other} is slower than {one}",
    decisions.SAME: "{other} is as fast as {one}",
    decisions.TINY: "{other} differs from {one} too little to matter",
    decisions.UNRESOLVED: "no clear difference between {one} and {other}",
    decisions.DISTURBED: "no verdict: {disturbance}",
}


def verdict_lines(
    names: tuple[str, str], result: Comparison, rates: tuple[float | None, float | None]
) -> list[str]:
    """Return the lines of the verdict on two named cases; the ratio is second over first."""
    verdict, (one, other) = result.verdict, names
    disturbance = "" if result.disturbed is None else result.disturbed.message
    sentence = SENTENCES[verdict.outcome].format(one=one, other=other, disturbance=disturbance)
    bound = "; the load tool was the limit: the true difference is larger"
    text = [f"{verdict.outcome}: {sentence}{bound if result.at_least else ''}"]
    if verdict.ratio is not None and verdict.low is not None and verdict.high is not None:
        least = ""
        if result.at_least:  # the difference is at least this; if `other` is slower, a lower ratio
            least = "at most " if verdict.outcome == decisions.SLOWER else "at least "
        text.append(
            f"ratio {least}{verdict.ratio:.3f}, 95 % interval {verdict.low:.3f} to "
            f"{verdict.high:.3f}, {verdict.pairs} rounds"
        )
    for name, known in zip(names, rates, strict=True):
        text.append(f"{name}: {'no rate' if known is None else f'{known:.2f}/s'}")
    if verdict.more_pairs and result.disturbed is None:
        text.append(
            f"about {verdict.more_pairs} more rounds are needed for a verdict at this noise"
        )
    return text


def verdict_text(records: Sequence[Record]) -> str:
    """Render the verdict of a run of two cases in one block; empty for any other run."""
    if not (run := RunComparison.of(records)):
        return ""
    text = verdict_lines(run.names, run.comparison, run.rates)
    return "\n".join(map(wrapped, text))


@dataclass(frozen=True)
class RunComparison:
    """The comparison of a run of two cases in one block, derived from its records alone."""

    names: tuple[str, str]
    comparison: Comparison
    rates: tuple[float | None, float | None]
    windows: tuple[Record, ...]

    @classmethod
    def of(cls, records: Sequence[Record]) -> RunComparison | None:
        """Compare the cases of a run; None for any other run, or if a case has no window."""
        own = RunRecords(records)
        one, other = (own.at(each).windows() for each in (0, 1))
        trials = [record.trial for record in own.windows()]
        if not one or not other or {(t.block, t.case_index) for t in trials} != {(0, 0), (0, 1)}:
            return None
        first, second = (case_name(windows[-1]) for windows in (one, other))
        return cls(
            (first, second),
            compare_windows(one, other),
            (estimate_rate(one).value, estimate_rate(other).value),
            (*one, *other),
        )


def verdict_values(cases: ComparedCases) -> dict[str, object]:
    """Return the verdict for JSON; the ratio is `other` over `one`."""
    verdict = cases.comparison.verdict
    return {
        "one": cases.one.name,
        "other": cases.other.name,
        "verdict": verdict.outcome,
        "ratio": verdict.ratio,
        "ratio_low": verdict.low,
        "ratio_high": verdict.high,
        "pairs": verdict.pairs,
        "more_pairs": verdict.more_pairs,
        "at_least": cases.comparison.at_least,
        "disturbed": cases.comparison.disturbed and str(cases.comparison.disturbed),
        "rates": cases.rates,
        "flags": window_warnings(cases),
        "records": str(cases.folder),
    }


def window_warnings(cases: ComparedCases) -> list[str]:
    """Return the warnings on the windows of two compared cases."""
    own = RunRecords(cases.records)
    return notes.case_warnings(
        (name, own.at(index).records) for index, name in enumerate(cases.names)
    )


# GIL effects: each task in threads and in processes


AT_CEILING = 0.95  # share of the ceiling, above which the pool is the limit
EFFECTS_HEAD = ("Task", units.GIL_HELD, "Threads", "Processes", "Processes : threads")
EFFECTS_DEFINITIONS = (
    "GIL held: the share of the run time of a single task in which it holds the GIL.",
    "Threads, Processes: completed requests per second, with the same number of workers.",
    "Processes : threads: the ratio of both rates in the same rounds, with its 95 % interval.",
)


@dataclass(frozen=True)
class Effect:
    """One task in `threads` and in `processes`, and the comparison of both by rounds.

    `pool` is the highest rate in requests/s that the workers allow. Without rounds, the comparison
    is that of one long run each, and has no interval.
    """

    threads: Row
    processes: Row
    comparison: Comparison
    pool: float | None

    @property
    def verdict(self) -> Verdict:
        """The verdict at the level of one comparison."""
        return self.comparison.verdict

    @property
    def ratio(self) -> float:
        """The rate in processes over the rate in threads, from the rounds if there are some."""
        return self.verdict.ratio or 0.0

    @property
    def reading(self) -> str:
        """The conclusion as a sentence, if the rounds support one."""
        outcome = self.verdict.outcome
        if outcome == decisions.DISTURBED and self.comparison.disturbed is not None:
            return f"disturbed: {self.comparison.disturbed.message}"
        lower = min(self.threads.rate or 0.0, self.processes.rate or 0.0)
        if self.pool and lower >= AT_CEILING * self.pool:
            return f"The pool of {self.threads.first.server.workers} is the limit, not the GIL"
        if self.verdict.low is None:
            return "One run of each: no verdict"
        least = "at least " if self.comparison.at_least else ""
        faster, slower = self.ratio, 1 / self.ratio
        cost = "a hop to a process costs more than the GIL"
        sentences = {
            decisions.FASTER: f"Processes are {least}{_times(faster)} as fast{self._reason}",
            decisions.SLOWER: f"Threads are {least}{_times(slower)} as fast: {cost}",
            decisions.SAME: "No difference that matters",
            decisions.TINY: "No difference that matters",
        }
        return sentences.get(outcome, "No clear difference")

    @property
    def _reason(self) -> str:
        """The role of the GIL if processes are faster, as the end of a sentence."""
        hold, first = self.threads.gil_hold, self.threads.first
        if first.server.interpreter.get("gil_enabled") is False:
            return ", but this Python has no GIL"
        if hold is None:
            return ""
        cores = first.environment.get("cores")
        at_once = min(first.server.workers or 1, cores if isinstance(cores, int) else 1)
        if hold * at_once >= 1:  # the workers together would need more than one GIL
            return ": the task holds the GIL"
        return f"; the task holds the GIL {share_text(hold)} of its time"


def effects(rows: Sequence[Row]) -> list[Effect]:
    """Pair the rows of each task with the same workers and users; the largest ratio is first."""
    newest = {_comparison_key(row.first): row for row in rows if row.problem is None and row.rate}
    pairs = [
        (threads, newest["processes", *load])
        for (server, *load), threads in newest.items()
        if server == "threads" and ("processes", *load) in newest
    ]
    found = [
        Effect(*pair, _compare_rows(*pair), figures.pool_rate(pair[0].first, pair[0].records))
        for pair in pairs
    ]
    return sorted(found, key=lambda effect: -effect.ratio)


def effects_table(found: Sequence[Effect]) -> str:
    """Render the effects, each with the description of its task and the conclusion below it."""
    cells = [
        (
            share_text(effect.threads.gil_hold),
            f"{units.number(effect.threads.rate or 0.0)}/s",
            f"{units.number(effect.processes.rate or 0.0)}/s",
            ratio_text(effect),
        )
        for effect in found
    ]
    most = first_column([*zip(EFFECTS_HEAD[1:], *cells, strict=True)])
    lines = []
    for effect, own, what in zip(found, cells, describe_effects(found), strict=True):
        task = shortened(effect.threads.first.case.task, most)
        lines.append(
            TableLine((task, *own), f"{what}. {effect.reading}." if what else effect.reading)
        )
    return render_table(EFFECTS_HEAD, lines)


def effects_definitions() -> str:
    """Define each column of the table in a line."""
    return paragraphs(EFFECTS_DEFINITIONS)


def describe_effects(found: Sequence[Effect]) -> list[str]:
    """Return the short description of each task, with its load if the task has several rows."""
    several = Counter(effect.threads.first.case.task for effect in found)
    described = []
    for first in (effect.threads.first for effect in found):
        words = [short_words(first.case.task), origin_of(first)]
        words += ["protected"] if first.server.settings.get("protect") == "yes" else []
        if several[first.case.task] > 1:
            load = f"{first.server.workers} workers, {first.case.users} users"
            words += [load, request_of(first)]
        described.append(", ".join(word for word in words if word))
    return described


def effect_remedies(found: Sequence[Effect]) -> list[str]:
    """Return the remedies for disturbed effects."""
    flags = [effect.comparison.disturbed for effect in found if effect.comparison.disturbed]
    fixes = dict.fromkeys(flag.remedy for flag in flags)
    return [f"disturbed, no verdict: {fix}" for fix in fixes]


def ratio_text(effect: Effect) -> str:
    """Format the ratio with its interval: `4.14x (3.91 to 4.38)`."""
    return units.ratio(effect.ratio, effect.verdict.low, effect.verdict.high)


def short_words(task: str) -> str:
    """Return the short description of a task from its docstring; empty if unknown.

    It is empty for a user's task, because a file that a record names must not be read.
    """
    if catalog.is_own(task):
        return ""
    try:
        return catalog.find_task(task).short
    except UserError:  # the task was measured elsewhere, or has been removed
        return ""


def _times(ratio: float) -> str:
    """Format a ratio above 1 for a sentence."""
    return f"{ratio:.{2 if ratio < 1.1 else 1}f}x"


def _comparison_key(r: Record) -> tuple[object, ...]:
    """Return the server, and all facts that must be equal in rows that are compared."""
    test_driver = r.load.driver if r.trial.kind == TEST else None
    load = (
        r.case.task,
        r.server.workers,
        r.server.settings.get("protect"),
        r.case.users,
        r.case.keep_alive,
        r.case.asked_rate,
        r.case.think_s,
        r.case.origin,
        tuple((r.case.request or {}).values()),
        test_driver,
    )
    return (r.case.server, *load, *provenance_of(r))


def _compare_rows(threads: Row, processes: Row) -> Comparison:
    """Compare the windows by round; a ratio of one run each has no interval."""
    found = compare_windows(threads.windows, processes.windows)
    if found.verdict.pairs:
        return found
    ratio = (processes.rate or 0.0) / (threads.rate or 1.0)
    return Comparison(Verdict(decisions.UNRESOLVED, ratio, None, None, 0, None, None))


# One Python with its GIL on and off

ON_AND_OFF_HEAD = (units.CASE, units.WORKERS, "GIL on", "GIL off", "off : on", units.MEMORY)
ON_AND_OFF_DEFINITIONS = (
    "Workers: threads of one process; with prefork, processes with one thread each.",
    "GIL on, GIL off: completed requests per second of the same build, with PYTHON_GIL=1 and =0.",
    "off : on: the ratio of both rates in the same rounds, with its 95 % interval.",
    "Memory: the peak memory of all processes with the GIL on, and off, in MiB (PSS).",
)
WORDS = {
    decisions.FASTER: "Faster without its GIL",
    decisions.SLOWER: "Slower without its GIL",
    decisions.SAME: "No difference that matters",
    decisions.TINY: "No difference that matters",
    decisions.UNRESOLVED: "No clear difference",
}


@dataclass(frozen=True)
class OnAndOff:
    """One case with the GIL `on` and `off`, compared in the rounds of their block."""

    on: Row
    off: Row
    comparison: Comparison

    @property
    def sentence(self) -> str:
        """The conclusion, or the reason why there is none."""
        for row, name in ((self.on, "on"), (self.off, "off")):
            if row.problem is not None:
                return f"With the GIL {name}: {row.problem.message}"
        if (importer := gil_enabled_by(self.off.first)) is not None:
            return f"No comparison: {importer} turned the GIL on"
        if self.comparison.disturbed is not None:
            return str(self.comparison.disturbed)
        return WORDS[self.comparison.verdict.outcome]


def on_and_off_pairs(rows: Sequence[Row]) -> list[OnAndOff]:
    """Return the pairs of rows that differ only in PYTHON_GIL, in the order of the rows."""
    off = {_case_without_gil(row.first): row for row in rows if _setting(row.first) == "nogil"}
    return [
        OnAndOff(
            row,
            off[_case_without_gil(row.first)],
            compare_windows(row.windows, off[_case_without_gil(row.first)].windows),
        )
        for row in rows
        if _setting(row.first) == "gil" and _case_without_gil(row.first) in off
    ]


def on_and_off_table(found: Sequence[OnAndOff]) -> str:
    """Render the pairs with a sentence for each; empty without pairs."""
    if not found:
        return ""
    lines = [TableLine(tuple(_on_and_off_cells(pair)), f"{pair.sentence}.") for pair in found]
    words = paragraphs(ON_AND_OFF_DEFINITIONS)
    return f"{render_table(ON_AND_OFF_HEAD, lines)}\n\n{words}"


def on_and_off_ratio_text(pair: OnAndOff) -> str:
    """Format the ratio with its interval: `1.78x (1.17 to 2.73)`; empty if it is unknown."""
    verdict = pair.comparison.verdict
    if verdict.ratio is None or verdict.low is None:
        return ""
    return units.ratio(verdict.ratio, verdict.low, verdict.high)


def _on_and_off_cells(pair: OnAndOff) -> Iterator[str]:
    case = pair.on.first.case
    server = pair.on.first.server
    yield f"{case.server}/{case.task}"
    yield str(server.workers or server.settings.get("processes", "-"))
    for row in (pair.on, pair.off):
        yield "-" if row.rate is None else f"{units.number(row.rate)}/s"
    yield on_and_off_ratio_text(pair) or "-"
    memory = [row.memory_pss_mib for row in (pair.on, pair.off)]
    yield " / ".join("-" if mib is None else f"{mib:.0f}" for mib in memory)


def _case_without_gil(record: Record) -> tuple[object, ...]:
    """Return the facts that are equal in both rows of a pair."""
    build = (record.case.python or "").rpartition("-")[0]
    _, *load = record.key
    return (build, record.case.id.replace(f"@{record.case.python}", ""), *load)


def _setting(record: Record) -> str:
    return (record.case.python or "").rpartition("-")[2]
