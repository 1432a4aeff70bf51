"""Several loads in slices, such as A B C C B A, in one process.

Each slice has a warm-up and a window, and lasts until the requests in flight have a response.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic, process_time

from offload.loads import Figures, Load, LoadResult, SlicedLoad, SlicedLoads
from offload.loads.engine.figures import summary
from offload.loads.engine.figures.samples import Samples
from offload.loads.engine.figures.summary import KINDS, CountedTime, counted_time
from offload.loads.engine.shared_state import SharedState
from offload.loads.engine.worker import work


@dataclass(frozen=True)
class Slice:
    """The window of one slice, and the samples of its requests."""

    window: CountedTime
    samples: Samples


def run(loads: Sequence[Load], order: Sequence[int]) -> SlicedLoads:
    """Run loads in slices; `order` has their places. A load with a problem has no further slice."""
    slices: list[list[Slice]] = [[] for _ in loads]
    started, cpu_s = monotonic(), process_time()
    for place in order:
        own, load = slices[place], loads[place]
        if own and own[-1].samples.problem is not None:
            continue
        state = SharedState(1)
        samples = work(load, load, state, 0)
        own.append(Slice(counted_time(load, state, [samples]), samples))
    found = tuple(pooled(load, own) for load, own in zip(loads, slices, strict=True))
    return SlicedLoads(found, process_time() - cpu_s, monotonic() - started)


def pooled(load: Load, slices: Sequence[Slice]) -> SlicedLoad:
    """Return the figures of all slices: response times are pooled, and the rate is their mean."""
    times, failed = array("d"), Counter[str]()
    parts: list[LoadResult] = []
    for each in slices:
        own_times, own_failed = summary.count(load, each.window, [each.samples])
        times.extend(own_times)
        failed.update(own_failed)
        parts.append(summary.summary(load, each.window, [each.samples]))
    lengths = [each.window.length for each in slices]
    total_s = math.fsum(lengths)
    figures = [part.figures for part in parts]
    rate = _mean([each.rate for each in figures], lengths)
    finished = len(times) + failed.total() - failed["unfinished"]
    result = Figures(
        elapsed_s=round(total_s, 6),
        offered=len(times) + failed.total(),
        completed=len(times),
        failed={kind: failed[kind] for kind in KINDS},
        availability=len(times) / finished if finished else None,
        rate=rate,
        rate_how=figures[0].rate_how,
        rate_quantum=_quantum(figures, lengths, rate),
        in_flight=_mean([each.in_flight for each in figures], lengths),
        window_s=round(total_s, 6),
        window_began=slices[0].window.started,
        window_ended=slices[-1].window.ended,
        response=summary.response(times, [load.timeout] * failed["timeout"]),
    )
    busy = _mean([part.driver_busy for part in parts], lengths)
    last = parts[-1]
    return SlicedLoad(
        replace(
            last,
            figures=result,
            driver_busy=None if busy is None else round(busy, 4),
            driver_cpu_s=None if busy is None else round(busy * total_s, 6),
            notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        ),
        sum(len(each.samples.ended) for each in slices),
    )


def _mean(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    """Return the weighted mean; None if a value is unknown."""
    known = [value for value in values if value is not None]
    if len(known) < len(values) or not math.fsum(weights):
        return None
    return math.fsum(v * w for v, w in zip(known, weights, strict=True)) / math.fsum(weights)


def _quantum(
    figures: Sequence[Figures], lengths: Sequence[float], rate: float | None
) -> float | None:
    """Return the quantization error of the mean rate: those of the slices are independent."""
    if not rate or any(each.rate_quantum is None or each.rate is None for each in figures):
        return None
    errors = [
        (each.rate_quantum or 0.0) * (each.rate or 0.0) * length
        for each, length in zip(figures, lengths, strict=True)
    ]
    return math.hypot(*errors) / (rate * math.fsum(lengths))
