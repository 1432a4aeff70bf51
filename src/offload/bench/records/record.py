"""The record of one trial: built once, at its end, and never changed.

Everything else is derived from records. Units are in the names: `_s` seconds, `_mib` MiB; rates are
requests a second; shares are from 0 to 1. None is unknown; 0 is a zero that was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from offload.flags import LOAD, Flag, Problem
from offload.loads import Figures

SCHEMA = 3
WINDOW, LONG, TEST = "window", "long", "test"
Facts = Mapping[str, object]


@dataclass(frozen=True)
class Trial:
    """When and why a trial was made.

    Its `kind` is "window", one of several short loads by builtin in a `round` of a `block` (their
    `order` follows from `seed`); "long", one contiguous run of the published tool; or "test", of a
    server that a user started. `place` is that of the case in the plan. `attempt` 2 is the retry of
    a flagged round: only the last attempt counts. `quick` and `target` are its plan's. `phases` are
    seconds by phase. `machine` names the machine among those of run.json.
    """

    run: str
    utc: str
    kind: str = TEST
    suite: str | None = None
    block: int | None = None
    place: int | None = None
    round: int | None = None
    order: int | None = None
    seed: int | None = None
    attempt: int = 1
    quick: bool = False
    target: float | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    machine: str | None = None


@dataclass(frozen=True)
class CaseFacts:
    """What was measured: a server with a task, and its load.

    `id` names the server, its settings, interpreter and task, whatever they are called on the
    command line; `command` is how a user starts it. `request` is what users send, by the fields of
    a suite's Request; None is `GET /`. `clients` are processes that the users were divided over.
    """

    id: str
    server: str
    task: str
    command: str
    users: int
    python: str | None = None
    keep_alive: bool = False
    asked_rate: float | None = None
    think_s: float = 0.0
    seconds: float | None = None
    requests: int | None = None
    request: Facts | None = None
    clients: int = 1
    upstream: Facts | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What two records of one case have in common: its id and its load."""
        request = (self.request or {}).values()
        return (self.id, self.users, self.keep_alive, self.asked_rate, *request)


@dataclass(frozen=True)
class ServerFacts:
    """What a server reported: the settings in force and its interpreter.

    `life_cpu_s` is the CPU time from start to end of the server and all it left.
    """

    workers: int | None = None
    settings: Facts = field(default_factory=dict)
    interpreter: Facts = field(default_factory=dict)
    life_cpu_s: float | None = None


@dataclass(frozen=True)
class Baseline:
    """The first requests, before the load.

    `alone_s` is the median response time of one request at a time, and `kept_s` that on one kept
    connection, without its first request. `body_bytes` counts the first response's body, and
    `content` is the part of it that its suite compares. With `is_stable` every
    response under load must have the first one's body.
    """

    alone_s: float | None = None
    kept_s: float | None = None
    body_sha256: str | None = None
    body_bytes: int | None = None
    is_stable: bool | None = None
    content: str | None = None


@dataclass(frozen=True)
class LoadFacts:
    """The load tool: its `model` is "closed" or "open".

    `cpu_s` is the CPU time of all its processes, within the window if the tool reports that.
    `busy` is the share of the CPU that its threads could use which it used.
    """

    url: str | None = None
    driver: str | None = None
    version: str | None = None
    argv: tuple[str, ...] = ()
    model: str | None = None
    cpu_s: float | None = None
    busy: float | None = None
    output: str | None = None


@dataclass(frozen=True)
class Result(Figures):
    """The load tool's figures, and two ratios that the trial adds.

    `little_ratio` is rate x mean / users, `tries_per_request` counts what the retry tasks requested
    of the upstream.
    """

    little_ratio: float | None = None
    tries_per_request: float | None = None

    @property
    def failures(self) -> int | None:
        """The number of requests that failed; those unfinished at the end are no failures."""
        known = [count for kind, count in self.failed.items() if kind != "unfinished"]
        return sum(count or 0 for count in known) if known else None


@dataclass(frozen=True)
class Memory:
    """The memory of a process tree in MiB, at most; PSS counts shared pages once."""

    pss_mib: float | None = None
    uss_mib: float | None = None
    rss_mib: float | None = None


@dataclass(frozen=True)
class HostUse:
    """What the machine did in the window: `busy_s` of all its CPUs, `own_cpu_s` of the bench.

    `others_cpu` is the share of its CPU that other processes took, `steal` the hypervisor's.
    `python_s` and `memory_s` are its speed just before: the times of two fixed pieces of work.
    """

    busy_s: float | None = None
    own_cpu_s: float | None = None
    others_cpu: float | None = None
    steal: float | None = None
    cpu_pressure: float | None = None
    load_average: tuple[float, ...] = ()
    python_s: float | None = None
    memory_s: float | None = None


@dataclass(frozen=True)
class Resources:
    """What a server's process tree used in the window, and held at most.

    `cpu_s` is user and system time, `queued_s` what its threads waited for a CPU. `connections`
    counts those the load kept, by process of the server that has some, most first.
    `listen_overflows` counts the connections that the server's listen queue dropped, or where that
    is unknown, those of the machine.
    """

    cpu_s: float | None = None
    queued_s: float | None = None
    switches_voluntary: int | None = None
    switches_involuntary: int | None = None
    cpu_ms_per_request: float | None = None
    cores_used: float | None = None
    processes: int | None = None
    threads: int | None = None
    fds: int | None = None
    connections: tuple[int, ...] | None = None
    listen_overflows: int | None = None
    memory: Memory = Memory()
    host: HostUse = HostUse()


@dataclass(frozen=True)
class Tasks:
    """The clocks in the server: means of one task under the load, and alone.

    `wall_s`, `cpu_s` and `queued_s` are a task's wall time, CPU time and wait for a CPU;
    `alone_blocked_s` is what is neither, with one task in flight. A slot runs one task at a time.
    """

    slots: int | None = None
    slot_s: float | None = None
    wall_s: float | None = None
    cpu_s: float | None = None
    queued_s: float | None = None
    alone_s: float | None = None
    alone_cpu_s: float | None = None
    alone_blocked_s: float | None = None
    loop_lag_p50_ms: float | None = None
    loop_lag_p99_ms: float | None = None
    loop_lag_max_ms: float | None = None


@dataclass(frozen=True)
class Share:
    """A share from 0 to 1 with its 95 % interval."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class GilFacts:
    """What the GIL sampler saw.

    `hold` is the share of one task alone in which the GIL was held, `utilisation` the share of the
    load. `switches` counts how often it changed threads under the load, which then held it no
    longer than `hold_p75_s` for three quarters of it. `why` says why they are unknown.
    """

    hold: Share = Share()
    utilisation: Share = Share()
    switches: int | None = None
    hold_p75_s: float | None = None
    why: str | None = None


@dataclass(frozen=True)
class Record:
    """One load of one server: what each phase of its trial returned.

    `environment` is the machine it was measured on, which stands in run.json.
    """

    trial: Trial
    case: CaseFacts
    server: ServerFacts = ServerFacts()
    baseline: Baseline = Baseline()
    load: LoadFacts = LoadFacts()
    result: Result = Result()
    resources: Resources = Resources()
    tasks: Tasks = Tasks()
    gil: GilFacts = GilFacts()
    flags: tuple[Flag, ...] = ()
    problem: Problem | None = None
    environment: Facts = field(default_factory=dict, compare=False)

    @property
    def key(self) -> tuple[object, ...]:
        """What two records of one case have in common."""
        return self.case.key

    def figure(self, name: str) -> float | None:
        """Return a figure that claims may be about, by its name in `suites.Claim`."""
        response = self.result.response
        return {
            "rate": self.result.rate,
            "response_mean_s": response.mean_s,
            "response_p50_s": response.p50_s,
            "response_p99_s": response.p99_s,
            "memory_pss_mib": self.resources.memory.pss_mib,
        }[name]

    @property
    def is_unavailable(self) -> bool:
        """Whether the case could not be measured at all."""
        return self.problem is not None and self.problem.kind != LOAD
