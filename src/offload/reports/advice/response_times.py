"""Response times of an answer as text, at the measured loads below its rate."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from offload.bench.advice import latency
from offload.bench.advice.latency import Percentile
from offload.reports.advice.names import join_names
from offload.units import number_and_unit, percent, seconds

MIN_RESPONSES = 100  # responses, of which one is slower than the p99 on average


def sentences(
    rate: float | None, percentiles: Sequence[Percentile], whose: str = ""
) -> Iterator[str]:
    """Yield the 95th percentiles with their intervals, if they were measured.

    `whose` is text after `p95`, such as ` of threads x8`.
    """
    if rate is None or not percentiles:
        return
    found = [
        f"{_with_interval(each)} at {load(share, rate)}"
        for share, each in zip(latency.LOADS, percentiles, strict=False)
    ]
    yield f"p95{whose} is {join_names(found)}."


def required_p99(
    p99_s: float | None, rate: float | None, percentiles: Sequence[Percentile]
) -> Iterator[str]:
    """Yield the highest load at which a required p99 is met; nothing if none is required.

    With fewer than MIN_RESPONSES responses it is unknown whether the p99 is met: on average, less
    than one of them is slower than the 99th percentile.
    """
    if p99_s is None or rate is None or not percentiles:
        return
    known = [*zip(latency.LOADS, percentiles, strict=False)]
    leading = itertools.takewhile(lambda each: each[1].is_within(p99_s), known)
    within = [(share, found.responses) for share, found in leading]
    met = [share for share, responses in within if responses >= MIN_RESPONSES]
    values = [_at_load(share, found) for share, found in known]
    limit = f"the limit of {seconds(p99_s)} is"
    if met:
        yield f"{join_names(values)}: {limit} met up to {load(met[-1], rate)}."
    elif within:
        few = f"of fewer than {MIN_RESPONSES} responses"
        yield f"{join_names(values)}, {few}: it is not known whether {limit} met."
    else:
        yield f"{join_names(values)}: {limit} not met. Reduce the load per machine."


def _at_load(share: float, found: Percentile) -> str:
    """Render the p99 at a load, with the share of failed requests if it is too high."""
    failed = ""
    if found.failed > latency.MOST_FAILED:
        failed = f" ({percent(found.failed, 1)} of requests failed)"
    return f"{percentile(found, found.p99_s)} at {percent(share)} load{failed}"


def percentile(found: Percentile, value: float | None) -> str:
    """Render a percentile, with `>=` if it is a lower bound."""
    if value is None:
        return "unknown"
    return f">= {seconds(value)}" if found.is_bound(value) else seconds(value)


def p95(found: Sequence[Percentile]) -> str:
    """Render the 95th percentiles at the shares of the rate in `latency.LOADS`."""
    return ", ".join(percentile(each, each.value) for each in found)


def load(share: float, rate: float) -> str:
    """Render a share of a rate: `50 % load (344/s)`."""
    requests = f"{share * rate:.0f}" if share * rate >= 100 else f"{share * rate:.3g}"
    return f"{percent(share)} load ({requests}/s)"


def _with_interval(found: Percentile) -> str:
    """Render a 95th percentile with its interval: `46 ms (44.1 to 48.3 ms)`."""
    value = percentile(found, found.value)
    if found.value is None or found.low is None or found.is_bound(found.value):
        return value
    if found.high is None:
        return f"{value} ({seconds(found.low)} or more)"
    (low, unit), (_, high_unit) = number_and_unit(found.low), number_and_unit(found.high)
    start = low if unit == high_unit else f"{low} {unit}"
    return f"{value} ({start} to {percentile(found, found.high)})"
