"""The record of one visit: written once, never changed; everything else is derived from records."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

SCHEMA = 2
VISIT, LONG, TEST, PAIR = "visit", "long", "test", "pair"
UNAVAILABLE = "not available: "


@dataclass(frozen=True)
class Record:
    """One load of one server. None is not known; 0 is a zero that was measured.

    Its `kind` is "visit", one of several by builtin in rounds whose order is of `seed`; "long", one
    contiguous run of the published tool; "test", of a server that a user started; or "pair", a
    slice of a comparison. `quick` and `target` are its plan's. `attempt` 2 repeats a visit whose
    flags were a reason to; only the last attempt counts.
    Units are in the names: `_s` seconds, `_mib` MiB; rates are requests a second; `availability`
    is a share from 0 to 1. `alone_s` is the median response time of one request at a time, before
    the load, and `kept_s` that on one kept connection, without its first request. `connections`
    counts those the load kept, by process of the server that takes some, most first. `request` is
    what users ask, by the fields of a suite's Request; None is `GET /`.
    `clients` are processes that the users were divided over.
    `body_bytes` counts the first answer's body, and `content` is what its suite compares of it.
    `phases` are seconds by phase. `tries_per_request` counts what the retry tasks asked
    of the upstream. `server_cpu_s` was used during the load, `server_life_cpu_s` from start to end
    by the server and all it left. `problem` says in one line why there are no figures; `flags`
    what to doubt.

    `task_s`, `task_cpu_s` and `task_queued_s` are a task's wall time, CPU time and wait for a CPU
    under the load, means by the clocks in its own thread; `alone_task_s`, `alone_task_cpu_s` and
    `alone_blocked_s`, what is neither, are those of one task in flight. `gil_hold` is the share of
    that task in which the GIL was held, `gil_utilisation` the share of the load, each from 0 to 1
    with its 95 % interval; `gil_switches` counts how often it changed threads under the load, which
    then held it no longer than `gil_hold_p75_s` for three quarters of it; `gil_why` says why
    they are not known.
    """

    run: str
    server: str
    task: str
    users: int
    command: str
    utc: str
    schema: int = SCHEMA
    kind: str = TEST
    suite: str | None = None
    round: int | None = None
    order: int | None = None
    seed: int | None = None
    attempt: int = 1
    quick: bool = False
    target: float | None = None
    workers: int | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    keep_alive: bool = False
    asked_rate: float | None = None
    think_s: float = 0.0
    seconds: float | None = None
    requests: int | None = None
    request: Mapping[str, object] | None = None
    clients: int = 1
    url: str | None = None
    driver: str | None = None
    driver_version: str | None = None
    argv: tuple[str, ...] = ()
    model: str | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    alone_s: float | None = None
    kept_s: float | None = None
    body_sha256: str | None = None
    body_bytes: int | None = None
    content: str | None = None
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
    response_mean_s: float | None = None
    response_how: str | None = None
    response_p50_s: float | None = None
    response_p90_s: float | None = None
    response_p95_s: float | None = None
    response_p99_s: float | None = None
    response_p999_s: float | None = None
    response_max_s: float | None = None
    histogram: Mapping[str, int] | None = None
    late_p99_s: float | None = None
    late_max_s: float | None = None
    driver_busy: float | None = None
    little_ratio: float | None = None
    tries_per_request: float | None = None
    server_cpu_s: float | None = None
    server_life_cpu_s: float | None = None
    queued_s: float | None = None
    switches_voluntary: int | None = None
    switches_involuntary: int | None = None
    cpu_ms_per_request: float | None = None
    cores_used: float | None = None
    driver_cpu_s: float | None = None
    memory_pss_mib: float | None = None
    memory_uss_mib: float | None = None
    memory_rss_mib: float | None = None
    processes: int | None = None
    threads: int | None = None
    fds: int | None = None
    connections: tuple[int, ...] | None = None
    listen_overflows: int | None = None
    busy_s: float | None = None
    own_cpu_s: float | None = None
    others_cpu: float | None = None
    steal: float | None = None
    cpu_pressure: float | None = None
    loop_lag_p50_ms: float | None = None
    loop_lag_p99_ms: float | None = None
    loop_lag_max_ms: float | None = None
    slots: int | None = None
    slot_s: float | None = None
    task_cpu_s: float | None = None
    task_s: float | None = None
    task_queued_s: float | None = None
    alone_task_s: float | None = None
    alone_task_cpu_s: float | None = None
    alone_blocked_s: float | None = None
    gil_hold: float | None = None
    gil_hold_low: float | None = None
    gil_hold_high: float | None = None
    gil_utilisation: float | None = None
    gil_utilisation_low: float | None = None
    gil_utilisation_high: float | None = None
    gil_switches: int | None = None
    gil_hold_p75_s: float | None = None
    gil_why: str | None = None
    interpreter: Mapping[str, object] = field(default_factory=dict)
    upstream: Mapping[str, object] | None = None
    environment: Mapping[str, object] = field(default_factory=dict)
    load_average: tuple[float, ...] = ()
    flags: tuple[str, ...] = ()
    problem: str | None = None
    output: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What two records of one case have in common: its command and its load."""
        asked = (self.request or {}).values()
        return (self.command, self.users, self.keep_alive, self.asked_rate, *asked)

    @property
    def is_unavailable(self) -> bool:
        """Say whether the case could not be measured at all, as its `problem` tells."""
        return self.problem is not None and self.problem.startswith(UNAVAILABLE)

    @property
    def failures(self) -> int | None:
        """Count the requests that failed; those unfinished when time was up are no failures."""
        known = [count for kind, count in self.failed.items() if kind != "unfinished"]
        return sum(count or 0 for count in known) if known else None

    def to_line(self) -> str:
        """Give the record as one line of JSON, `schema` first, without the line's end."""
        values = asdict(self)
        return json.dumps({"schema": values.pop("schema"), **values}, allow_nan=False)


def from_line(line: str) -> Record:
    """Read a record back; fields of newer versions are passed over. Raises ValueError."""
    try:
        values = json.loads(line, parse_constant=_refuse)
        known = {name: _checked(name, value) for name, value in values.items() if name in TYPES}
        return Record(**known)
    except (TypeError, AttributeError) as error:  # a field is missing, or it is no JSON object
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


TYPES = {f.name: str(f.type) for f in fields(Record)}
JSON: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": (int, float),
    "bool": bool,
    "Mapping": dict,
    "tuple": list,
}


def _checked(name: str, value: Any) -> Any:
    """Give a field's value as it was written, or raise ValueError."""
    kind = TYPES[name].removesuffix(" | None")
    if value is None and kind != TYPES[name]:
        return None
    plain = kind.partition("[")[0]
    is_right = isinstance(value, JSON[plain]) and isinstance(value, bool) == (plain == "bool")
    if not is_right or value in (math.inf, -math.inf):
        raise ValueError(f"{name}={str(value)[:40]!r} is no {kind}")
    return tuple(value) if plain == "tuple" else value


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no number of a record")
