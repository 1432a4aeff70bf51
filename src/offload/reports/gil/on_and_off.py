"""One free-threaded Python with its GIL on and off: the rate and the memory of each server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from offload import units
from offload.bench.analysis import comparison
from offload.bench.analysis.comparison import Comparison
from offload.bench.records.record import Record
from offload.bench.stats import paired_test
from offload.documents import text_table
from offload.documents.text_table import Line
from offload.reports import provenance
from offload.reports.rows import Row
from offload.reports.tables import formats

HEAD = ("Server, task", "Workers", "GIL on", "GIL off", "off : on", "Memory")
DEFINITIONS = (
    "Workers: threads of one process; with prefork, processes with one thread each.",
    "GIL on, GIL off: completed requests per second of the same build, with PYTHON_GIL=1 and =0.",
    "off : on: the ratio of both rates in the same rounds, with its 95 % interval.",
    "Memory: the peak memory of all processes with the GIL on, and off, in MiB (PSS).",
)
WORDS = {
    paired_test.FASTER: "Faster without its GIL",
    paired_test.SLOWER: "Slower without its GIL",
    paired_test.SAME: "No difference that matters",
    paired_test.TINY: "No difference that matters",
    paired_test.UNRESOLVED: "No clear difference",
}


@dataclass(frozen=True)
class Pair:
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
        if (importer := provenance.gil_enabled_by(self.off.first)) is not None:
            return f"No comparison: {importer} turned the GIL on"
        if self.comparison.disturbed is not None:
            return str(self.comparison.disturbed)
        return WORDS[self.comparison.verdict.outcome]


def pairs(rows: Sequence[Row]) -> list[Pair]:
    """Return the pairs of rows that differ only in PYTHON_GIL, in the order of the rows."""
    off = {_case(row.first): row for row in rows if _setting(row.first) == "nogil"}
    return [
        Pair(
            row,
            off[_case(row.first)],
            comparison.compare(row.windows, off[_case(row.first)].windows),
        )
        for row in rows
        if _setting(row.first) == "gil" and _case(row.first) in off
    ]


def table(found: Sequence[Pair]) -> str:
    """Render the pairs with a sentence for each; empty without pairs."""
    if not found:
        return ""
    lines = [Line(tuple(_cells(pair)), f"{pair.sentence}.") for pair in found]
    return f"{text_table.render(HEAD, lines)}\n\n{text_table.paragraphs(DEFINITIONS)}"


def ratio_text(pair: Pair) -> str:
    """Format the ratio with its interval: `1.78x (1.17 to 2.73)`; empty if it is unknown."""
    verdict = pair.comparison.verdict
    if verdict.ratio is None or verdict.low is None:
        return ""
    return units.ratio(verdict.ratio, verdict.low, verdict.high)


def _cells(pair: Pair) -> Iterator[str]:
    case = pair.on.first.case
    server = pair.on.first.server
    yield f"{case.server}, {case.task}"
    yield str(server.workers or server.settings.get("processes", "-"))
    for row in (pair.on, pair.off):
        yield "-" if row.rate is None else f"{formats.number(row.rate)}/s"
    yield ratio_text(pair) or "-"
    memory = [row.memory_pss_mib for row in (pair.on, pair.off)]
    yield " / ".join("-" if mib is None else f"{mib:.0f}" for mib in memory)


def _case(record: Record) -> tuple[object, ...]:
    """Return the facts that are equal in both rows of a pair."""
    build = (record.case.python or "").rpartition("-")[0]
    _, *load = record.key
    return (build, record.case.id.replace(f"@{record.case.python}", ""), *load)


def _setting(record: Record) -> str:
    return (record.case.python or "").rpartition("-")[2]
