"""Single requests: the GIL-hold fraction and the clocks of a task with one user."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from offload import loads
from offload.bench.records.record import Baseline
from offload.bench.stats.models import gil
from offload.bench.telemetry.gil_sampler import NO_SAMPLE, GilSampler, Utilisation
from offload.bench.trial import server_report
from offload.loads import Load

SECONDS = 0.5  # s of tasks; at least two tasks
EVERY = 0.00025  # s between two samples: in 0.5 s 2000 samples, whose standard error is <= 0.011
NO_HOLD = Utilisation()
NOT_ALONE = "the server does not report when its tasks started and ended"


@dataclass(frozen=True)
class SingleRequest:
    """The GIL-hold fraction h of a single task, and the means of its clocks in seconds.

    `task_s` is its wall time w_1, `task_cpu_s` the CPU time c_1 of its thread. `blocked_s` is b,
    the time in which it neither ran nor waited for a CPU. None is unknown.
    """

    hold: Utilisation = NO_HOLD
    task_s: float | None = None
    task_cpu_s: float | None = None
    blocked_s: float | None = None


def measure(load: Load, facts: Mapping[str, object], before: Baseline) -> SingleRequest:
    """Measure a single task on the server that reported `facts`, by a load of one user.

    The result is unknown for external workers, unless they serve a user's application.
    """
    is_clocked = server_report.serves_application(facts)
    if facts.get("external_workers") and not is_clocked:  # they do not report their tasks' clocks
        return SingleRequest(Utilisation(why=str(facts["gil_address_error"])))
    return run_single_requests(load, server_report.with_gils(facts), before.alone_s or 0.0)


def run_single_requests(load: Load, facts: Mapping[str, object], alone_s: float) -> SingleRequest:
    """Run `load` with one user for 0.5 s, or for two tasks if these take longer.

    `alone_s` is the response time of one request. Only samples between the start and the end of a
    task are used, so h does not include the time of HTTP.
    """
    count = max(2, math.ceil(SECONDS / max(alone_s, 1e-4)))
    began = time.monotonic()
    with GilSampler(facts, EVERY) as sampler:
        loads.run(replace(load, requests=count), "builtin")
    reported = server_report.report_window(facts, load.url, began, time.monotonic(), with_each=True)
    each = reported.get("each") or []
    hold = sampler.during(sorted((start, end) for start, end in each))
    if not each and hold.why == NO_SAMPLE:
        hold = Utilisation(why=NOT_ALONE)
    task_s, cpu_s, queued_s = (reported.get(f"task{key}_s") for key in ("", "_cpu", "_queued"))
    blocked_s = None
    if task_s is not None and cpu_s is not None and queued_s is not None:
        blocked_s = round(gil.blocked_time(task_s, cpu_s, queued_s), 9)
    return SingleRequest(hold, task_s, cpu_s, blocked_s)
