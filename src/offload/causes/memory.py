"""Causes in the memory of the server: the garbage collector, malloc, lost sharing, and limits."""

from __future__ import annotations

from dataclasses import dataclass

from offload.causes import execution
from offload.causes.failures import MEMORY_LIMIT
from offload.causes.figures import Figures
from offload.causes.gains import Switch
from offload.causes.rules import Cause, Rule, may_explain
from offload.engine.application import Collector, Malloc
from offload.engine.record import MemoryLimit, Record
from offload.errors import escaped
from offload.units import percent, seconds

# Guesses, unless a source is named.
REPEATED = 2  # full collections; a first one always follows the import of many objects
FEW_ARENAS = 2  # what MALLOC_ARENA_MAX=2 leaves
FAULTS = 50_000  # page faults in a second of CPU time: each takes 0.5 to 2 us, so 2.5 to 10 %
MANY_FAULTS, MANY_ARENAS = 100_000, 8  # from which MALLOC_ARENA_MAX=2 has always helped
LEAST_MIB = 64.0  # in the arenas of threads; a heap of an arena has up to 64 MiB
FREE_SHARE = 0.25  # of a process's private memory, that its arenas keep free
REACHED = 0.95  # share of a limit: malloc may need more than the rest for its next block
SWAPPED_MIB = 16.0
COPIED_MIB = 16.0  # by collections in each process
UNSHARED_MIB, UNSHARED = 64.0, 0.25  # by anything else in each process; share of what was shared

COLLECTOR = "collector"
ARENAS = "arenas"
PRELOAD_LOST = "preload_lost"

FREEZE = Switch({"SERVER_FREEZE": "yes"}, how="gc.freeze() after the import")


@dataclass(frozen=True)
class KeptByArenas(Malloc):
    """Arenas that keep much memory free after the load; `has_faults`: and also take pages often."""

    has_faults: bool = False


def find_collector(of: Figures) -> Cause | None:
    """Collections of the garbage collector take a large part of the time of a busy process.

    A single full collection in the window may be the first one after the import: this is only a
    suspicion, unless it was called for.
    """
    found, share = of.collector, of.collected_share
    if share is None or share < execution.OFTEN_COLLECTED or (of.busy_each or 0.0) < execution.IDLE:
        return None
    is_single = found.full is not None and 0 < found.full < REPEATED and not _is_called(found)
    return Cause(COLLECTOR, share, execution.OFTEN_COLLECTED, facts=found, needs_gain=is_single)


def _is_called(found: object) -> bool:
    """Whether calls of gc.collect() take most of the time of the collections."""
    if not isinstance(found, Collector) or found.caller is None:
        return False
    return (found.called or 0.0) > (found.share or 0.0) / 2


def find_arenas(of: Figures) -> Cause | None:
    """Threads take pages from the kernel all the time, or keep memory in their arenas.

    Large blocks also cause page faults, but are in no arena. Memory that is kept is a fact. Page
    faults are a cause if the measured gain proves it, or else if the figures are extreme.
    """
    found, private_mib = of.malloc, of.signs.worker_private_mib
    if found.arenas is None or found.arenas <= FEW_ARENAS or (found.peak_mib or 0.0) < LEAST_MIB:
        return None
    is_busy = (of.busy_each or 0.0) >= execution.IDLE
    faults = of.page_faults if is_busy else 0.0
    least_mib = max(LEAST_MIB, FREE_SHARE * (private_mib or 0.0))
    keeps = private_mib is not None and (found.free_mib or 0.0) >= least_mib
    if (faults or 0.0) < FAULTS and not keeps:
        return None
    is_extreme = (faults or 0.0) >= MANY_FAULTS and found.arenas >= MANY_ARENAS
    if not keeps:
        return Cause(ARENAS, of.page_faults, FAULTS, facts=found, needs_gain=not is_extreme)
    kept = KeptByArenas(found.arenas, found.free_mib, found.peak_mib, is_extreme)
    value, least = (of.page_faults, FAULTS) if is_extreme else (found.free_mib, least_mib)
    return Cause(ARENAS, value, least, facts=kept)


def is_kept(cause: Cause) -> bool:
    """Whether a cause is memory that is only kept, which makes nothing slower."""
    if not isinstance(cause.facts, KeptByArenas):
        return False
    return not cause.facts.has_faults or (cause.gain is not None and cause.gain.is_refuted)


def _is_by_faults(cause: Cause) -> bool:
    return not isinstance(cause.facts, KeptByArenas)


def _arenas_explain(cause: Cause, _: str) -> bool:
    """Whether they explain another cause: memory that is only kept must have a gain."""
    return may_explain(cause) and (not is_kept(cause) or cause.gain is not None)


def find_preload_lost(of: Figures) -> Cause | None:
    """Forked workers copied memory that they shared: by full collections, or by using objects."""
    found = of.collector
    copied_mib = found.copied_mib or 0.0
    if copied_mib >= COPIED_MIB:
        return Cause(PRELOAD_LOST, copied_mib, COPIED_MIB)
    least_mib = max(UNSHARED_MIB, UNSHARED * (found.shared_mib or 0.0))
    used_mib = (found.unshared_mib or 0.0) - copied_mib
    return Cause(PRELOAD_LOST, used_mib, least_mib, facts=found) if used_mib >= least_mib else None


def find_memory_limit(of: Figures) -> Cause | None:
    """The kernel killed processes, the memory reached a limit, or parts of it were swapped out."""
    records = [*of.records, *of.failed]
    found = max((each.resources.memory_limit for each in records), key=_severity, default=None)
    if found is None:
        return None
    failed = next((each for each in records if _is_out_of_memory(each)), None)
    share = _share(found)
    is_reached = share >= REACHED or bool(found.kills)
    is_swapped = (found.swap_mib or 0.0) >= SWAPPED_MIB
    if not is_reached and not is_swapped and (failed is None or found.by is None):
        return None
    return Cause(MEMORY_LIMIT, round(share, 4), REACHED, facts=found)


def _severity(limit: MemoryLimit) -> tuple[int, float, float]:
    return limit.kills or 0, _share(limit), limit.swap_mib or 0.0


def _share(limit: MemoryLimit) -> float:
    return (limit.used_mib or 0.0) / limit.limit_mib if limit.limit_mib else 0.0


def _is_out_of_memory(record: Record) -> bool:
    return (record.application.failing.error or "").startswith("MemoryError")


def _describe_collector(cause: Cause, _: int) -> str:
    longest_s = cause.facts.longest_s if isinstance(cause.facts, Collector) else None
    longest = "" if longest_s is None else f", up to {seconds(longest_s)} at a time"
    takes = f"takes {percent(cause.value or 0.0)} of the CPU time{longest}"
    if isinstance(cause.facts, Collector) and _is_called(cause.facts):
        return f"a call of gc.collect() in {escaped(cause.facts.caller or '')} {takes}"
    return f"the garbage collector {takes}"


def _describe_preload_lost(cause: Cause, _: int) -> str:
    copied = f"{cause.value or 0.0:.0f} MiB"
    shared = "which they shared since the application was loaded before the fork"
    if cause.facts is None:
        return f"the garbage collector has copied {copied} in each worker, {shared}"
    return f"a worker has copied {copied}, {shared}: using an object writes its reference count"


def _remedy_of_preload_lost(cause: Cause) -> str:
    if cause.facts is None:
        return "call gc.freeze() before the fork (preload=freeze, or pre_fork in gunicorn.conf.py)"
    return "keep these data in arrays, in mmap or in a database instead of in many objects"


def _describe_arenas(cause: Cause, _: int) -> str:
    found = cause.facts
    kept = found.text if isinstance(found, Malloc) else "threads allocate from several arenas"
    if is_kept(cause):
        return f"{kept} after the load"
    return f"{kept}, with {cause.value or 0.0:,.0f} page faults in a second of CPU time"


def _remedy_of_arenas(cause: Cause) -> str:
    if cause.gain is not None and cause.gain.is_refuted:
        return (
            "as MALLOC_ARENA_MAX=2 gains nothing, use jemalloc or fewer threads, or make fewer "
            "and larger blocks"
        )
    return "set MALLOC_ARENA_MAX=2 in the server's environment"


def _describe_memory_limit(cause: Cause, _: int) -> str:
    found = cause.facts
    return found.text if isinstance(found, MemoryLimit) else "the memory is limited"


def _collector_explains(cause: Cause, kind: str) -> bool:
    """Whether it explains a cause: a full GIL only if the rate is clearly higher without it."""
    if kind != execution.GIL_SATURATED:
        return may_explain(cause)
    is_unclear = cause.gain is not None and cause.gain.is_judged and not cause.gain.is_clear
    return (cause.value or 0.0) >= execution.COLLECTED and not is_unclear


def _remedy_collector(cause: Cause) -> str:
    if _is_called(cause.facts):
        return "remove that call: it looks at all objects each time, and Python collects by itself"
    gain = cause.gain
    if gain is not None and gain.is_judged and not gain.raises_rate:
        return (
            "as gc.freeze() gains little, raise gc.set_threshold(), because each collection looks "
            "at the objects of all requests in progress; or keep fewer containers (strings, arrays "
            "and tuples of numbers instead)"
        )
    return (
        "call gc.collect() and gc.freeze() once the application is loaded, so that collections "
        "skip its objects from then on"
    )


RULES = (
    Rule(
        MEMORY_LIMIT,
        find_memory_limit,
        _describe_memory_limit,
        "raise that limit, or use fewer processes, threads or calls in progress",
    ),
    Rule(
        COLLECTOR,
        find_collector,
        _describe_collector,
        _remedy_collector,
        is_per_process=True,
        is_symptom_of=frozenset({execution.THREAD_HOPS}),  # each creates a task and its futures
        switch=lambda cause: None if _is_called(cause.facts) else FREEZE,
        explains=_collector_explains,
    ),
    Rule(
        ARENAS,
        find_arenas,
        _describe_arenas,
        _remedy_of_arenas,
        is_per_process=True,
        switch=lambda _: Switch({"MALLOC_ARENA_MAX": "2"}),
        explains=_arenas_explain,
        is_proven_by_gain=_is_by_faults,
    ),
    Rule(
        PRELOAD_LOST,
        find_preload_lost,
        _describe_preload_lost,
        _remedy_of_preload_lost,
        switch=lambda cause: None if cause.facts else Switch(settings={"preload": "freeze"}),
    ),
)
