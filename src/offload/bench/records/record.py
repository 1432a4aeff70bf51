"""The record of one trial: built once, at its end, and never changed.

Everything else is derived from records. Units are in the names: `_s` seconds, `_mib` MiB. Rates are
in requests/s, shares are from 0 to 1. None is unknown; 0 is a measured zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from offload.bench.records.application import Application
from offload.flags import LOAD, Flag, Problem
from offload.loads import Figures, HostRun

SCHEMA = 3
WINDOW, LONG, TEST = "window", "long", "test"
Facts = Mapping[str, object]


@dataclass(frozen=True)
class Trial:
    """The time and the purpose of a trial.

    Its `kind` is "window": one of several short loads by builtin in a `round` of a `block`, in an
    `order` that `seed` determines; "long": one contiguous load, by the published tool, or by
    builtin at a fixed rate to measure response times; or "test": a load of a server that a user
    started. `place` is the index of the case in the plan. attempt=2 is the automatic retry of a
    flagged round: only the last attempt counts. `apart`: the other servers of its block did not run
    at the same time. `quick` and `target` are those of the plan. `phases` are durations in seconds.
    `machine` is the name of the machine in run.json.
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
    apart: bool = False
    quick: bool = False
    target: float | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    machine: str | None = None


@dataclass(frozen=True)
class CaseFacts:
    """The measured case: a server with a task or a user's application (`app=...`), and its load.

    `id` consists of the server, its settings, interpreter and task, and does not depend on aliases;
    `command` is the command with which a user starts the server. `request` has the fields of a
    suite's Request, without secrets: a masked value is `***`, the body of a user's request is its
    SHA-256 and its length; None is `GET /`. `asked_rate` is the requested rate of an open loop.
    `clients` is the number of load processes, `path` the folder from which a user's task is
    imported. `origin` names the checkout or environment from which the server started, if it is not
    the one that runs this program.
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
    path: str | None = None
    origin: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """The identity of a case: its id and its load."""
        request = (self.request or {}).values()
        return (self.id, self.users, self.keep_alive, self.asked_rate, *request)


@dataclass(frozen=True)
class ServerFacts:
    """The facts that a server reported: its settings and its interpreter.

    `workers` are those of each process.
    `life_cpu_s` is the CPU time of the server and all its descendants, from start to end.
    """

    workers: int | None = None
    settings: Facts = field(default_factory=dict)
    interpreter: Facts = field(default_factory=dict)
    life_cpu_s: float | None = None

    @property
    def processes(self) -> int | None:
        """The number of processes that share the port, if the server has such a setting."""
        processes = self.settings.get("processes")
        return processes if isinstance(processes, int) else None

    @property
    def all_workers(self) -> int | None:
        """The number of workers in all processes; None if the server has no workers."""
        return None if self.workers is None else self.workers * (self.processes or 1)


@dataclass(frozen=True)
class Baseline:
    """The first requests, before the load.

    `alone_s` is the median response time of single requests, each on a new connection, and `kept_s`
    that of requests on one kept connection, without the first one. `body_bytes` is the length of
    the first response's body, and `content` the part of it that its suite compares. With
    `is_stable` every response under load must have the same body.
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

    `argv` is its command. None means: the same as in the last record of this case and `kind` that
    has one, with another URL. `output` is what the tool printed. For builtin this repeats
    `result`, and is stored only if the load failed.

    `cpu_s` is the CPU time of all its processes, within the window if the tool reports that.
    `busy` is its CPU use as a share of what its threads can use. With `pin` the server and the tool
    used different CPUs, such as 0-2/3.

    `hosts` sent the load, if it is not this machine. Then `served` is the number of tasks that the
    server itself counted as completed from the start of the load to its end, None if it does not
    report that; `received` is the number that the hosts counted, and `unanswered` the number of
    requests without a response, which the server may have completed, too.
    """

    url: str | None = None
    driver: str | None = None
    version: str | None = None
    argv: tuple[str, ...] | None = ()
    model: str | None = None
    cpu_s: float | None = None
    busy: float | None = None
    output: str | None = None
    pin: str | None = None
    hosts: tuple[HostRun, ...] = ()
    served: int | None = None
    received: int | None = None
    unanswered: int | None = None


@dataclass(frozen=True)
class Result(Figures):
    """The load tool's figures, and two ratios that the trial adds.

    `little_ratio` is the mean number of concurrent requests over the number of users: that which
    the tool reports, or else rate x mean. `tries_per_request` is the number of upstream requests
    per request of a retry task.
    """

    little_ratio: float | None = None
    tries_per_request: float | None = None

    @property
    def failures(self) -> int | None:
        """The number of failed requests; requests unfinished at the end are not failures."""
        known = [count for kind, count in self.failed.items() if kind != "unfinished"]
        return sum(count or 0 for count in known) if known else None


@dataclass(frozen=True)
class Memory:
    """The peak memory of a process tree in MiB; PSS counts shared pages once.

    `whole_mib` are the private pages of all processes, and once the pages that they share: those of
    the process that shares most. Unlike PSS it does not depend on other programs that share pages.
    `after_mib` is the same after the last load of a server, and `collected_mib` after a full
    garbage collection in its processes then.

    The tree of a server `dask` with `scheduler` or `ssh` does not contain the workers.
    """

    pss_mib: float | None = None
    uss_mib: float | None = None
    rss_mib: float | None = None
    whole_mib: float | None = None
    after_mib: float | None = None
    collected_mib: float | None = None


@dataclass(frozen=True)
class HostUse:
    """The CPU use of the machine in the window, and its speed.

    `busy_s` is the CPU time of all processes, `own_cpu_s` that of this program, the upstream,
    idle servers and the speed meter. `others_cpu` is the share of the machine's CPU that other
    processes used, `steal` the share that the hypervisor used. `cpu_pressure` is the share of time
    in which a thread waited for a CPU. `python_s` and `memory_s` are the durations of two fixed
    pieces of work just before the window. `work_s` is the mean CPU time of a fixed piece of work on
    each CPU in the window (see docs/method.rst).
    """

    busy_s: float | None = None
    own_cpu_s: float | None = None
    others_cpu: float | None = None
    steal: float | None = None
    cpu_pressure: float | None = None
    load_average: tuple[float, ...] = ()
    python_s: float | None = None
    memory_s: float | None = None
    work_s: float | None = None


@dataclass(frozen=True)
class Resources:
    """The resources that a server's process tree used in the window, and their peaks.

    `cpu_s` is user and system time, `queued_s` the time in which its threads waited for a CPU.
    Context switches are those of all threads, except threads that started and ended within 0.1 s.
    `connections` has the number of kept connections of each accepting process, in descending order,
    `requests` the number of requests that each process answered: None if only one can.
    `listen_overflows` is the number of connections that the server's listen queue dropped; if this
    is unknown, that of all listen queues of the machine.
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
    requests: tuple[int, ...] | None = None
    listen_overflows: int | None = None
    memory: Memory = Memory()
    host: HostUse = HostUse()


@dataclass(frozen=True)
class Tasks:
    """Times measured in the server: means of a task under load, and of a single task (`alone_*`).

    `wall_s`, `cpu_s` and `queued_s` are a task's wall time, CPU time and wait for a CPU; for a
    user's application they are those of a request, on the thread that calls the application.
    `alone_blocked_s` is the wall time of a single task without its CPU time and its wait for a CPU.
    A slot runs one task at a time, and `slot_s` is the time for which a task occupies a slot.
    `loop_lag_*` is the delay of the event loop.
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
    """The figures of the GIL sampler.

    `hold` is the share of a single task's time in which the GIL was locked, `utilisation` the share
    of the window. `switches` is the number of times in the window that the GIL passed to another
    thread, and `hold_p75_s` the 75th percentile of hold times, weighted by time. `why` is the
    reason if they are unknown.
    """

    hold: Share = Share()
    utilisation: Share = Share()
    switches: int | None = None
    hold_p75_s: float | None = None
    why: str | None = None


@dataclass(frozen=True)
class Record:
    """The results of one trial: one load of one server, and the phases before and after it.

    `environment` has the facts of the machine; they are stored in run.json.
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
    application: Application = field(default_factory=Application)
    flags: tuple[Flag, ...] = ()
    problem: Problem | None = None
    environment: Facts = field(default_factory=dict, compare=False)

    @property
    def key(self) -> tuple[object, ...]:
        """The identity of the case: records of one case have the same key."""
        return self.case.key

    def figure(self, name: str) -> float | None:
        """Return a figure by its name in `suites.Claim`; None if it is unknown.

        A percentile is also None if only a lower bound of it is known.
        """
        response = self.result.response
        return {
            "rate": self.result.rate,
            "response_mean_s": response.mean_s,
            "response_p50_s": None if response.is_bound(response.p50_s) else response.p50_s,
            "response_p99_s": None if response.is_bound(response.p99_s) else response.p99_s,
            "memory_pss_mib": self.resources.memory.pss_mib,
        }[name]

    @property
    def is_unavailable(self) -> bool:
        """Whether the case could not be measured at all."""
        return self.problem is not None and self.problem.kind != LOAD
