"""Causes in the memory of the server: the garbage collector, malloc, lost sharing, and limits."""

from __future__ import annotations

from offload.causes.figures import Figures
from offload.causes.gains import Switch
from offload.causes.rules import Cause, Rule
from offload.units import percent, seconds

# Guesses, unless a source is named.
COLLECTED = 0.15  # share of the time in collections: without them the rate is 18 % higher
REPEATED = 2  # full collections; a first one always follows the import of many objects

COLLECTOR = "collector"
FREEZE = Switch({"SERVER_FREEZE": "yes"}, how="gc.freeze() after the import")


def find_collector(of: Figures) -> Cause | None:
    """Collections of the garbage collector take a large part of the time.

    A single full collection in the window may be the first one after the import: this is only a
    suspicion.
    """
    found = of.collector
    if found.share is None or found.share < COLLECTED:
        return None
    is_single = found.full is not None and 0 < found.full < REPEATED
    return Cause(COLLECTOR, found.share, COLLECTED, longest_s=found.longest_s, needs_gain=is_single)


def _describe_collector(cause: Cause, _: int) -> str:
    longest = "" if cause.longest_s is None else f", up to {seconds(cause.longest_s)} at a time"
    return f"the garbage collector takes {percent(cause.value or 0.0)} of the time{longest}"


RULES = (
    Rule(
        COLLECTOR,
        find_collector,
        _describe_collector,
        "call gc.collect() and gc.freeze() once the application is loaded, so that collections "
        "skip its objects from then on",
        is_per_process=True,
        switch=lambda _: FREEZE,
    ),
)
