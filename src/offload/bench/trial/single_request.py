"""Single flight: one task at a time, and what it holds, takes and waits for when it is alone."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urljoin

from offload import loads
from offload.bench.records.record import Record
from offload.bench.stats import gil
from offload.bench.telemetry.gil_sampler import NO_SAMPLE, Meter, Utilisation
from offload.bench.trial import workload
from offload.bench.trial.warmup import get
from offload.errors import StartError
from offload.loads import Load

SECONDS = 0.5  # of tasks, at least two of them
EVERY = 0.00025  # s between two looks: 2000 of them make the error of a half 0.011
NOT_ALONE = "the server does not tell when its tasks began and ended"


@dataclass(frozen=True)
class SingleFlight:
    """The GIL-hold fraction h of a task, and the means of its clocks in seconds, all alone.

    `task_s` is its wall time w_1, `task_cpu_s` the CPU time of its thread c_1; `blocked_s` is b,
    how long it was neither running nor waiting for a CPU. None is not known.
    """

    hold: Utilisation
    task_s: float | None = None
    task_cpu_s: float | None = None
    blocked_s: float | None = None


def added(record: Record, facts: Mapping[str, object]) -> Record:
    """Add to a record what one task takes on the server that said `facts`, if it can be asked."""
    if facts.get("foreign"):  # whose processes run the tasks, and tell nothing of them
        return replace(record, gil_why=str(facts["gil_word_why"]))
    found = fly(workload.alone(record), facts, record.alone_s or 0.0)
    return replace(
        record,
        **found.hold.fields("hold"),
        alone_task_s=found.task_s,
        alone_task_cpu_s=found.task_cpu_s,
        alone_blocked_s=found.blocked_s,
    )


def fly(load: Load, facts: Mapping[str, object], alone_s: float) -> SingleFlight:
    """Have one user ask what `load` does for as long as its figures need: 0.5 s, or two tasks.

    `alone_s` is what one request takes. Looked at is only what lies within a task, by the clock of
    the thread that ran it: h is no matter of HTTP.
    """
    count = max(2, math.ceil(SECONDS / max(alone_s, 1e-4)))
    began = time.monotonic()
    with Meter(facts, EVERY) as meter:
        loads.run(replace(load, requests=count), "builtin")
    try:
        window = f"from={began:.6f}&to={time.monotonic():.6f}"
        told = json.loads(get(urljoin(load.url, f"/resources/?{window}&each")))
    except (StartError, ValueError):  # it may have died
        told = {}
    each = told.get("each") or []
    hold = meter.during(sorted(each))
    if not each and hold.why == NO_SAMPLE:
        hold = Utilisation(why=NOT_ALONE)
    task_s, cpu_s, queued_s = (told.get(f"task{key}_s") for key in ("", "_cpu", "_queued"))
    blocked_s = None
    if None not in (task_s, cpu_s, queued_s):
        blocked_s = round(gil.blocked_time(task_s, cpu_s, queued_s), 9)
    return SingleFlight(hold, task_s, cpu_s, blocked_s)
