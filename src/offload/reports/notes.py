"""Notes below a table, which report each problem of its measurements once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from offload.bench.analysis import disturbance
from offload.bench.records.record import WINDOW, Record
from offload.bench.stats import sequential
from offload.flags import Flag
from offload.reports import application, provenance, warnings
from offload.reports.rows import Row
from offload.reports.tables import formats
from offload.units import percent

OF_THE_MACHINE = {"others", "steal"}  # kinds of flags that `_machine` reports
MOST_NAMES = 100  # characters of the names of rows in a note


def of_table(rows: Sequence[Row]) -> list[str]:
    """Return the notes on the rows of one table."""
    records = [record for row in rows for record in row.records]
    return [*_machine(records), *_flags(rows), *_rows(rows)]


def _machine(records: Sequence[Record]) -> Iterator[str]:
    """Report the use and the speed of the machine during all loads."""
    if (change := disturbance.speed_change(records)) is not None:
        yield f"this machine's speed changed by {formats.share(change)} during the run"
    windows = [r for r in records if r.trial.kind == WINDOW]
    loads, noun = (windows, "windows") if windows else (records, "loads")
    for who, name, limit in (
        ("other processes used", "others_cpu", disturbance.LONG_OTHERS),
        ("the hypervisor used", "steal", disturbance.LONG_STEAL),
    ):
        shares = [getattr(record.resources.host, name) for record in loads]
        known = [share for share in shares if share is not None]
        if above := [share for share in known if share > limit]:
            most = formats.share(max(above))
            yield f"{who} up to {most} of the CPU in {len(above)} of {len(known)} {noun}"


def _flags(rows: Sequence[Row]) -> Iterator[str]:
    """Report the newest flag of each kind, with the number of its loads and their rows."""
    kinds: dict[str, list[tuple[Row, Flag]]] = {}
    for row in rows:
        for record in row.records:
            for flag in {flag.kind: flag for flag in record.flags}.values():
                kinds.setdefault(flag.kind, []).append((row, flag))
    for kind, found in kinds.items():
        if kind not in OF_THE_MACHINE:
            count = f"{len(found)} load{'s' if len(found) > 1 else ''}"
            yield f"{found[-1][1]} ({count} of {_names([row for row, _ in found])})"


def _rows(rows: Sequence[Row]) -> Iterator[str]:
    """Report why rows have no figures, and findings from their records; equal texts only once."""
    yield from _grouped(rows, lambda row: None if row.problem is None else str(row.problem))
    known = [row for row in rows if row.problem is None]
    yield from _grouped(known, lambda row: warnings.failed_loads(row.records))
    yield from _grouped(known, _gil)
    yield from _grouped(known, lambda row: application.note(row.records))
    yield from _grouped(known, warnings.above_ceiling)
    short = [row for row in known if _is_cut_short(row)]
    for few, remedy in (
        ([row for row in short if row.long is None], "offload resume continues the run"),
        ([row for row in short if row.long], "the time of the run was over: use offload measure"),
    ):
        if few:
            yield f"fewer rounds than an analysis needs: {_names(few)}: {remedy}"
    tools = [(row, by) for row in known if (by := warnings.tool_difference(row)) is not None]
    if tools:
        driver = tools[-1][0].long
        name = (driver and driver.load.driver) or "the published tool"
        low, high = (end(by for _, by in tools) for end in (min, max))
        span = percent(low, sign="+") + (f" to {percent(high, sign='+')}" if len(tools) > 1 else "")
        apart = f"the long run of {name} differs from the rounds by {span}"
        names = _names([row for row, _ in tools])
        yield f"{apart} in {names}: offload report wide=yes prints both rates"


def _grouped(rows: Sequence[Row], text_of: Callable[[Row], str | None]) -> Iterator[str]:
    texts: dict[str, list[Row]] = {}
    for row in rows:
        if text := text_of(row):
            texts.setdefault(text, []).append(row)
    for text, own in texts.items():
        yield f"{_names(own)}: {text}"


def _gil(row: Row) -> str | None:
    importer = provenance.gil_enabled_by(row.first)
    return importer and f"{importer} turned the GIL on: this row is not free-threaded"


def _is_cut_short(row: Row) -> bool:
    design = sequential.design(row.first.trial.quick)
    return row.estimate is not None and row.estimate.n < design.counts[0]


def _names(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(formats.case_name(row.first) for row in rows))
    text = " and ".join(names)
    return text if len(text) <= MOST_NAMES or len(names) == 1 else f"{len(names)} rows"
