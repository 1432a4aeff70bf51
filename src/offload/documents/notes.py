"""What must be known of rows: notes below a table, warnings on a row, and confounded rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from offload.causes import diagnosis, victims
from offload.documents.rows import Row, case_name, gil_enabled_by, share_text
from offload.engine import figures, intervals
from offload.engine.figures import LONG_OTHERS, LONG_STEAL, rate_of, speed_change
from offload.engine.intervals import outliers
from offload.engine.record import WINDOW, Record, average_by_round, select_for_rate
from offload.errors import Flag, UserError
from offload.registry import catalog
from offload.units import percent

OF_THE_MACHINE = {"others", "steal"}  # kinds of flags that `_machine` reports
MOST_NAMES = 100  # characters of the names of rows in a note


def collect_notes(rows: Sequence[Row]) -> list[str]:
    """Return the notes on the rows of one table."""
    records = [record for row in rows for record in row.records]
    return [*_machine(records), *_flags(rows), *_row_notes(rows)]


def _machine(records: Sequence[Record]) -> Iterator[str]:
    """Report the use and the speed of the machine during all loads."""
    if (change := speed_change(records)) is not None:
        yield f"this machine's speed changed by {share_text(change)} during the run"
    windows = [r for r in records if r.trial.kind == WINDOW]
    loads, noun = (windows, "windows") if windows else (records, "loads")
    for who, name, limit in (
        ("other processes used", "others_cpu", LONG_OTHERS),
        ("the hypervisor used", "steal", LONG_STEAL),
    ):
        shares = [getattr(record.resources.host, name) for record in loads]
        known = [share for share in shares if share is not None]
        if above := [share for share in known if share > limit]:
            most = share_text(max(above))
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


def _row_notes(rows: Sequence[Row]) -> Iterator[str]:
    """Report why rows have no figures, and findings from their records; equal texts only once."""
    yield from _grouped(rows, lambda row: None if row.problem is None else str(row.problem))
    yield from _grouped([row for row in rows if row.problem is not None], _limits)
    known = [row for row in rows if row.problem is None]
    yield from _grouped(known, lambda row: failed_loads(row.records))
    yield from _grouped(known, _gil)
    yield from _grouped(known, _limits)
    yield from _grouped(known, above_ceiling)
    short = [row for row in known if _is_cut_short(row)]
    for few, remedy in (
        ([row for row in short if row.long is None], "offload resume continues the run"),
        ([row for row in short if row.long], "the time of the run was over: use offload measure"),
    ):
        if few:
            yield f"fewer rounds than an analysis needs: {_names(few)}: {remedy}"
    tools = [(row, by) for row in known if (by := tool_difference(row)) is not None]
    if tools:
        driver = tools[-1][0].long
        name = (driver and driver.load.driver) or "the published tool"
        low, high = (end(by for _, by in tools) for end in (min, max))
        span = percent(low, sign="+") + (f" to {percent(high, sign='+')}" if len(tools) > 1 else "")
        apart = f"the long run of {name} differs from the rounds by {span}"
        names = _names([row for row, _ in tools])
        yield f"{apart} in {names}: offload report format=html has both rates"


def _grouped(rows: Sequence[Row], text_of: Callable[[Row], str | None]) -> Iterator[str]:
    texts: dict[str, list[Row]] = {}
    for row in rows:
        if text := text_of(row):
            texts.setdefault(text, []).append(row)
    for text, own in texts.items():
        yield f"{_names(own)}: {text}"


def _gil(row: Row) -> str | None:
    importer = gil_enabled_by(row.first)
    return importer and f"{importer} turned the GIL on: this row is not free-threaded"


def _is_cut_short(row: Row) -> bool:
    design = intervals.sequential_design(row.first.trial.quick)
    return row.estimate is not None and row.estimate.n < design.counts[0]


def _names(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(case_name(row.first) for row in rows))
    text = " and ".join(names)
    return text if len(text) <= MOST_NAMES or len(names) == 1 else f"{len(names)} rows"


TOOL_DIFFERENCE = 0.03  # relative, between the rates of the published tool and of builtin


def row_warnings(row: Row) -> list[str]:
    """Return the warnings on a row: the newest flag of each kind, and findings from all records."""
    return [*_row_flags(row), *_derived(row)]


def count_flags(records: Sequence[Record], what: str) -> list[str]:
    """Return the newest flag of each kind, with the number of records that have it.

    `what` is a plural noun for the records.
    """
    kinds = _by_kind(records).values()
    return [f"{flags[-1]} ({len(flags)} of {len(records)} {what})" for flags in kinds]


def _limits(row: Row) -> str | None:
    return diagnosis.note(row.records) if row.has_signs else None


def case_warnings(cases: Iterable[tuple[str, Sequence[Record]]]) -> list[str]:
    """Return the warnings on the windows of several named cases.

    These are the number of failed loads of each case, the flags of all windows together, and light
    routes that are slow in a case; if none is, those of the first case.
    """
    named = [*cases]
    failed = [(name, failed_loads(windows)) for name, windows in named]
    problems = [f"problem: {name}: {found}" for name, found in failed if found is not None]
    every = [record for _, windows in named for record in windows]
    return [*problems, *count_flags(every, "windows"), *_light_routes(named)]


def _light_routes(cases: Sequence[tuple[str, Sequence[Record]]]) -> list[str]:
    known = [(name, windows) for name, windows in cases if victims.find(windows)]
    slow = [each for each in known if any(found.is_slow for found in victims.find(each[1]))]
    return [f"{name}: {light_route_note(windows)}" for name, windows in slow or known[:1]]


def light_route_note(records: Sequence[Record]) -> str | None:
    """Return what happens to the light routes of a case; None if it has none."""
    return victims.note(records, {cause.kind for cause in diagnosis.diagnose(records)})


def failed_loads(records: Sequence[Record]) -> str | None:
    """Return how many loads of a case failed, with the newest reason; None if none did.

    The figures of the case are those of its other loads.
    """
    problems = [record.problem for record in records if record.problem is not None]
    if not problems:
        return None
    return f"{len(problems)} of {len(records)} loads failed and are left out: {problems[-1]}"


def _row_flags(row: Row) -> Iterator[str]:
    for flags in _by_kind(row.records).values():
        often = f" (in {len(flags)} of {len(row.records)} runs)" if len(flags) > 1 else ""
        yield f"{flags[-1]}{often}"


def _by_kind(records: Sequence[Record]) -> dict[str, list[Flag]]:
    """Return the newest flag of each kind in each record that has one."""
    flags: dict[str, list[Flag]] = {}
    for record in records:
        for kind, flag in {flag.kind: flag for flag in record.flags}.items():
            flags.setdefault(kind, []).append(flag)
    return flags


def tool_difference(row: Row) -> float | None:
    """Return the relative difference of the published tool's run from the rounds.

    None if it is within TOOL_DIFFERENCE.
    """
    estimate = row.estimate
    if row.long is None or not row.long.result.rate or estimate is None or not estimate.value:
        return None
    apart = row.long.result.rate / estimate.value - 1
    is_near = -TOOL_DIFFERENCE - _ab_loss(row.long) <= apart <= TOOL_DIFFERENCE
    return None if is_near else apart


def above_ceiling(row: Row) -> str | None:
    """Return a warning if the rate and its whole interval are above the ceiling, else None."""
    ceiling, estimate = row.ceiling, row.estimate
    if ceiling is None:
        return None
    low = row.rate if estimate is None or estimate.low is None else estimate.low
    if (row.rate or 0.0) <= figures.ABOVE_CEILING * ceiling.rate or (low or 0.0) <= ceiling.rate:
        return None
    what = f"the rate is above its {ceiling.kind} ceiling of {ceiling.rate:.2f}/s"
    return f"ceiling: {what}: check the task, and the workers that its server reports"


def _derived(row: Row) -> Iterator[str]:
    if failed := failed_loads(row.records):
        yield f"problem: {failed}"
    if (gil := _gil(row)) is not None:
        yield f"gil: {gil}"
    estimate, design = row.estimate, intervals.sequential_design(row.first.trial.quick)
    if estimate is not None and estimate.n < design.counts[0]:
        yield f"rounds: {estimate.n} of {design.counts[0]} or more: offload resume continues it"
    rounds = average_by_round(select_for_rate(row.windows), rate_of)
    for index in outliers([*rounds.values()]):
        number, rate = [*rounds][index][2], [*rounds.values()][index]
        yield f"outlier: round {number} has {rate:.2f}/s, far from the others"
    if row.long is not None and (apart := tool_difference(row)) is not None:
        yield (
            f"tools: {row.long.load.driver}'s rate differs by {percent(apart, 1, '+')} from the "
            "rounds by builtin: see its output"
        )
    if (above := above_ceiling(row)) is not None:
        yield above


def _ab_loss(long: Record) -> float:
    """Return the share of its rate that ab loses, because its time includes more requests.

    When ab stops, one request per user is in flight.
    """
    if long.load.driver != "ab" or not long.result.completed:
        return 0.0
    return long.case.users / (long.result.completed + long.case.users)


# Confounded rows differ in more than one variable: no single one explains their rates.
REFERENCE = "threads"  # the server with which the other servers of a task are compared
SERVER = "the HTTP server"
TORNADO = "Tornado"


def confounded(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each pair of servers that differ in more than one variable."""
    works: dict[tuple[object, ...], list[Record]] = {}
    for row in rows:
        if row.problem is None:
            works.setdefault(_work(row.first), []).append(row.first)
    found: dict[str, None] = {}
    for own in works.values():
        server = REFERENCE if any(r.case.server == REFERENCE for r in own) else own[0].case.server
        references = [record for record in own if record.case.server == server]
        for record in (record for record in own if record.case.server != server):
            reference = min(references, key=lambda other: len(_differences(record, other)))
            if words := _differences(record, reference):
                found.setdefault(f"{record.case.server} against {server}: {', '.join(words)}")
    return [*found]


def _work(record: Record) -> tuple[object, ...]:
    return (record.case.task, str(record.case.request))


def _differences(record: Record, reference: Record) -> list[str]:
    """Return the variables that differ; empty if there is only one difference."""
    own, other = _variables(record), _variables(reference)
    words = [
        f"{name} ({own[name]} against {other[name]})"
        for name in own
        if None not in (own[name], other[name]) and own[name] != other[name]
    ]
    has_same_http = own[SERVER] is not None and own[SERVER] == other[SERVER]
    if record.case.server != reference.case.server and has_same_http:
        words.insert(0, "the strategy")
    return words if len(words) > 1 else []


def _variables(record: Record) -> Mapping[str, object]:
    server, settings = _server(record.case.server), record.server.settings
    return {
        SERVER: server[0],
        "the event loop": server[1],
        "the listen queue": settings.get("backlog"),
        "workers": record.server.all_workers or record.server.processes,
        "users": record.case.users,
        "kept connections": record.case.keep_alive,
        "Python": record.server.interpreter.get("python"),
    }


def _server(name: str) -> tuple[str | None, str | None]:
    """Return the HTTP server and the event loop of a server; None if unknown."""
    try:
        entry = catalog.find_server(name)
    except UserError:  # it was measured elsewhere
        return None, None
    uvloop = "uvloop" if "uvloop" in entry.needs else None
    return entry.http_server, uvloop or ("asyncio" if entry.http_server == TORNADO else None)
