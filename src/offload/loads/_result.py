"""The result of a load tool, in the same form for every driver, and checks that it is plausible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from offload.flags import Flag


@dataclass(frozen=True)
class Response:
    """Response times of single requests in seconds; `how` is the method that measured the mean.

    `histogram` counts the times in mergeable buckets (`loads/engine/figures/histogram.py`), with an
    error of at most 1 %.

    In an open loop, `late_*` is the delay with which the tool handled an arrival, and `waited_*`
    the time for which requests then waited for a free connection. The response times include both.

    The mean is that of completed requests. The quantiles and the histogram also contain the
    requests that timed out, with the timeout as their time. Then `at_least_s` is the timeout, and
    quantiles of that value or more are lower bounds.
    """

    mean_s: float | None = None
    how: str | None = None
    p50_s: float | None = None
    p90_s: float | None = None
    p95_s: float | None = None
    p99_s: float | None = None
    p999_s: float | None = None
    max_s: float | None = None
    histogram: Mapping[str, int] | None = None
    at_least_s: float | None = None
    late_p99_s: float | None = None
    late_max_s: float | None = None
    waited_p99_s: float | None = None
    waited_max_s: float | None = None

    def is_bound(self, value: float | None) -> bool:
        """Whether a quantile is a lower bound, because requests timed out."""
        return value is not None and self.at_least_s is not None and value >= self.at_least_s


@dataclass(frozen=True)
class Figures:
    """What a load tool counted in its window. None means unknown; 0 is a counted zero.

    `completed` counts responses with a status below 400; `failed` counts the others by kind:
    refused, reset, timeout, tls, 4xx, 5xx, body (not the expected one), unfinished (no response
    when the time was up), other.
    `availability` is completed / finished requests, 0 to 1; unfinished requests are in neither.
    `rate` is in completed requests per second, and `rate_how` is the method of its computation.
    `rate_quantum` is the relative quantization error of the rate, because only whole requests are
    counted: no interval is narrower. `in_flight` is the mean number of concurrent requests.
    `offered` is the number of all counted requests: completed and failed, unfinished ones included.
    In an open loop these are the requests that were scheduled within the window, in a closed loop
    those that ended in it or were in flight at its end and failed. It is None if the tool does not
    report the unfinished ones.

    The window lasts from `window_began` to `window_ended`, in seconds of CLOCK_MONOTONIC.
    """

    elapsed_s: float | None = None
    offered: int | None = None
    completed: int | None = None
    failed: Mapping[str, int | None] = field(default_factory=dict)
    availability: float | None = None
    rate: float | None = None
    rate_how: str | None = None
    rate_quantum: float | None = None
    in_flight: float | None = None
    window_s: float | None = None
    window_began: float | None = None
    window_ended: float | None = None
    response: Response = Response()


@dataclass(frozen=True)
class LoadResult:
    """The values that a driver parsed from the output of its tool.

    `driver_busy` is the share of one core that the busiest load process used within the window,
    `driver_cpu_s` the CPU time in s that all its processes used there; None if it reports neither.
    `notes` report how the tool deviated from the load.
    """

    figures: Figures = Figures()
    driver_busy: float | None = None
    driver_cpu_s: float | None = None
    problem: str | None = None
    notes: tuple[Flag, ...] = ()


@dataclass(frozen=True)
class HostRun:
    """The part of one host in a load that several hosts sent.

    `host` is its name in `from=`; it had `users` users in `processes` processes. `is_here`: it is
    the machine that measures, under another name. `completed` and `failed` count the requests of
    the whole load. `late_s` is the delay of its start after the agreed time. `problem` is the
    reason why its requests are missing from the figures.

    `ahead_s` is the difference of its monotonic clock from that of the machine that measures,
    before the load, and `ahead_after_s` after it. Neither error is larger than `bound_s`.
    """

    host: str
    users: int
    processes: int = 1
    version: str | None = None
    is_here: bool = False
    ahead_s: float | None = None
    ahead_after_s: float | None = None
    bound_s: float | None = None
    late_s: float | None = None
    completed: int | None = None
    failed: int | None = None
    cpu_s: float | None = None
    problem: str | None = None


@dataclass(frozen=True)
class LoadRun:
    """A finished run of a load tool: the tool, its result, its raw output and its CPU time.

    `driver_cpu_s` is the CPU time in seconds of all its processes, within the window if the tool
    reports that. `driver_busy` is the CPU time as a share of the time that its threads can use;
    None for a short load. With `hung` the tool was killed and has no figures.

    If several `hosts` sent the load, `received` is the number of responses that the server should
    have counted, from the start of the load to its end. `unanswered` is the number of requests
    without a response; the server may have counted these, too. Both are None if the requests of a
    host are unknown.
    """

    driver: str
    version: str | None
    argv: tuple[str, ...]
    result: LoadResult
    driver_cpu_s: float | None
    output: str
    model: str = "closed"
    hung: bool = False
    driver_busy: float | None = None
    hosts: tuple[HostRun, ...] = ()
    received: int | None = None
    unanswered: int | None = None


LARGEST = 1e15  # plausible count or time
COUNT, NUMBER = r"(\d{1,15})", r"(\d{1,15}(?:\.\d{1,9})?)"  # patterns of tools' output
NUMBERS = ("elapsed_s", "rate", "in_flight", "window_s")
TIMES = ("mean_s", "p50_s", "p90_s", "p95_s", "p99_s", "p999_s", "max_s")


def is_figure(value: object) -> bool:
    """Whether a JSON value is a plausible count or time."""
    return type(value) in (int, float) and 0 <= value < LARGEST  # type: ignore[operator]


def check_figures(result: LoadResult, name: str) -> LoadResult:
    """Return the result; if a figure is impossible, return a result that has only a problem."""
    wrong = _impossible(result.figures)
    if wrong is None or (result.problem and result.figures.completed is None):
        return result
    return LoadResult(problem=f"{name}'s result is implausible: {wrong}")


def _impossible(figures: Figures) -> str | None:
    """Name the first impossible figure, with its value."""
    if figures.completed is None:
        return "the number of completed requests is missing"
    if not isinstance(figures.failed, Mapping):
        return f"failed={figures.failed!r}"
    counts = {"completed": figures.completed, "offered": figures.offered, **figures.failed}
    numbers = {name: getattr(figures, name) for name in NUMBERS}
    times = {f"response.{name}": getattr(figures.response, name) for name in TIMES}
    shares = {"availability": figures.availability}
    kinds = [(counts, _is_count), (numbers | times, is_figure), (shares, _is_share)]
    for values, is_possible in kinds:
        for name, value in values.items():
            if value is not None and not is_possible(value):
                return f"{name}={value!r}"
    is_contradiction = figures.completed and figures.rate == 0
    return f"rate=0 with completed={figures.completed}" if is_contradiction else None


def _is_count(value: object) -> bool:
    return type(value) is int and is_figure(value)


def _is_share(value: object) -> bool:
    return is_figure(value) and value <= 1  # type: ignore[operator]
