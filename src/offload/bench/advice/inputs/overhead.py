"""The overhead of each strategy: what a request costs besides its task.

overhead_measurement.py measures it with four kinds of tasks. A task that does nothing saturates the
server: workers and event loop never sleep, and each wake-up passes several requests. A task that
waits lets its worker sleep in each request, so each request has wake-ups of its own. A task that
computes displaces the server's code and data from the caches of the CPU, so the server is slower. A
task that returns 1 MB shows the cost of each byte of a response.

While a task computes in one worker per core, cores are idle at times although requests wait: a
worker has no request until the event loop has run. This time per request is part of the overhead,
too.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from offload.bench.advice.strategies import STRATEGIES
from offload.bench.records import lines

T = TypeVar("T")
LONGEST = 60.0  # limit of a valid figure in s
MEASURING_CORES = 0.1  # cores that the sampler and the idle servers of a block use [0.07 to 0.13]
# Numbers of workers that saturate their server although the task waits. More workers change the
# overhead of pools little. But all idle processes of prefork wake up for each connection, so it has
# as many processes as for a function that waits.
WAITING_WORKERS = {"threads": 8, "processes": 8, "pipes": 8, "prefork": 25}
# CPU times of a call in s, from which it has the whole additional overhead of a task that computes
COMPUTE_S = 0.0002  # [0.2 to 0.3 ms]
WAIT_COMPUTE_S = 0.002  # if the call waits; a guess


@dataclass(frozen=True)
class Overhead:
    """The overhead of one request of a task that does nothing, and how other tasks change it.

    All times are in s. `serial_s` is the time for which a request occupies an event loop of the
    server: the number of its loops / the rate of a saturated server. `cpu_s` is the CPU time of the
    server and of the load tool, which shares the machine. `waiting` has these times for a task that
    waits; None if they are unknown, and for the loop, which has no workers. `computing` has the
    additional times for a task that computes, `megabyte` those for each MB of a response; None if
    they are unknown. `idle_s` is the time per request for which a core is idle although requests
    wait, with a worker per core; None if it is unknown, and for the loop. `python_s` is the
    duration of fixed work in Python during the measurement (see `machine_speed`), which is longer
    on a slower machine; None if it is unknown. `idle_s` and `python_s` are None in `waiting`,
    `computing` and `megabyte`.
    """

    serial_s: float
    cpu_s: float
    waiting: Overhead | None = None
    computing: Overhead | None = None
    megabyte: Overhead | None = None
    idle_s: float | None = None
    python_s: float | None = None

    def waits(self, wait_s: float) -> bool:
        """Whether a call waits for longer than an iteration of the loop: its worker sleeps."""
        return wait_s > self.serial_s

    def of_call(
        self, wait_s: float, cpu_s: float, body_bytes: int, wake_ups: float = 0.0
    ) -> Overhead:
        """Return the overhead of a call that waits and computes, and returns `body_bytes`.

        If the call waits, the overhead is at least `waiting`. Otherwise only a part of the
        additional CPU time of `waiting` applies: the share `wake_ups`, from 0 (a worker per core)
        to 1 (as many workers wake up for each request as in `waiting`).
        """
        found = Overhead(self.serial_s, self.cpu_s)
        if self.computing is not None:
            enough_s = WAIT_COMPUTE_S if self.waits(wait_s) else COMPUTE_S
            found = found.plus(self.computing.scaled(min(1.0, cpu_s / enough_s)))
        if self.waiting is not None:
            serial_s = max(found.serial_s, self.waiting.serial_s)
            most_s = max(found.cpu_s, self.waiting.cpu_s)
            if self.waits(wait_s):
                found = Overhead(serial_s, most_s)
            else:
                found = replace(found, cpu_s=found.cpu_s + wake_ups * (most_s - found.cpu_s))
        if self.megabyte is not None:
            found = found.plus(self.megabyte.scaled(body_bytes / 1e6))
        return found

    def plus(self, other: Overhead) -> Overhead:
        """Return the sum of two overheads of one request."""
        return Overhead(self.serial_s + other.serial_s, self.cpu_s + other.cpu_s)

    def at(self, python_s: float | None) -> Overhead:
        """Return the overhead while the machine has another speed, if both speeds are known."""
        if python_s is None or self.python_s is None:
            return self
        return self.scaled(python_s / self.python_s)

    def scaled(self, factor: float) -> Overhead:
        """Return the overhead on a machine that is slower by a factor, without `python_s`."""
        parts = (self.waiting, self.computing, self.megabyte)
        waiting, computing, megabyte = (
            None if part is None else part.scaled(factor) for part in parts
        )
        idle_s = None if self.idle_s is None else self.idle_s * factor
        times = (self.serial_s * factor, self.cpu_s * factor)
        return Overhead(*times, waiting, computing, megabyte, idle_s)

    @property
    def times(self) -> list[float]:
        """All known times in s, except `python_s`."""
        parts = (self.waiting, self.computing, self.megabyte)
        times = [part.times for part in parts if part is not None]
        times.append([] if self.idle_s is None else [self.idle_s])
        return [self.serial_s, self.cpu_s, *(each for part in times for each in part)]


def read(values: Mapping[str, Any]) -> dict[str, Overhead]:
    """Return the overheads of all strategies from their JSON; raise ValueError.

    Parts that an older version did not save are unknown.
    """
    found = {name: lines.built(Overhead, parts, "overhead") for name, parts in values.items()}
    if missing := {*STRATEGIES} - found.keys():
        raise ValueError(f"the overhead of {min(missing)} is missing")
    for name, each in found.items():
        speed = [] if each.python_s is None else [each.python_s]
        if not all(0 < time_s < LONGEST for time_s in [*each.times, *speed]):
            raise ValueError(f"the overhead of {name} is not a time from 0 to {LONGEST:.0f} s")
    return found


def median(rounds: Sequence[Mapping[str, Overhead]]) -> dict[str, Overhead]:
    """Return the median overhead of each strategy over several rounds, at their median speed.

    A round beside undetected other work may have 20 times the idle time of the others, so of two
    idle times the smaller one is used.
    """
    return {name: _median([each[name] for each in rounds]) for name in STRATEGIES}


def _median(found: Sequence[Overhead]) -> Overhead:
    speeds = _known([each.python_s for each in found])
    python_s = statistics.median(speeds) if speeds else None
    same_speed = [each.at(python_s) for each in found]
    idle_s = _known([each.idle_s for each in same_speed])
    return Overhead(
        statistics.median(each.serial_s for each in same_speed),
        statistics.median(each.cpu_s for each in same_speed),
        _median_part([each.waiting for each in same_speed]),
        _median_part([each.computing for each in same_speed]),
        _median_part([each.megabyte for each in same_speed]),
        statistics.median_low(idle_s) if idle_s else None,
        python_s,
    )


def _median_part(parts: Sequence[Overhead | None]) -> Overhead | None:
    """Return the median of one part of several overheads; None if one of them is unknown."""
    known = _known(parts)
    return _median(known) if known else None


def _known(values: Sequence[T | None]) -> list[T]:
    """Return the values; an empty list if one of them is unknown."""
    known = [each for each in values if each is not None]
    return known if len(known) == len(values) else []


def is_complete(found: Mapping[str, Overhead]) -> bool:
    """Whether every part of the overheads is known."""
    pools = [found[name] for name in WAITING_WORKERS]
    parts = [part for each in pools for part in (each.waiting, each.idle_s)]
    for each in found.values():
        parts += [each.computing, each.megabyte, each.python_s]
    return all(part is not None for part in parts)
