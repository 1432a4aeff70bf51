"""The record of one trial: built once, at its end, and never changed.

Everything else is derived from records. Units are in the names: `_s` seconds, `_mib` MiB. Rates are
in requests/s, shares are from 0 to 1. None is unknown; 0 is a measured zero.

After the parts of a record and `Record` itself come selections of the records of a run and values
by round, and then a record as one line of JSON, which is validated when it is read.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TypeVar

import msgspec

from offload import files
from offload.engine.application import Application, Who
from offload.errors import LOAD, Flag, Problem
from offload.loads import Figures, HostRun
from offload.units import counted, cpus

SCHEMA = 4
WINDOW, LONG, TEST = "window", "long", "test"
Facts = Mapping[str, object]


@dataclass(frozen=True)
class Trial:
    """The time and the purpose of a trial.

    Its `kind` is "window": one of several short loads by builtin in a `round` of a `block`, in an
    `order` that `seed` determines; "long": one contiguous load, by the published tool, or by
    builtin at a fixed rate to measure response times; or "test": a load of a server that a user
    started. `case_index` is its place in the plan. attempt=2 is the automatic retry of a
    flagged round: only the last attempt counts. `measured_alone`: the other servers of its block
    did not run at the same time. `quick` and `target` are those of the plan. `phases` are durations
    in seconds. `machine` is the name of the machine in run.json.
    """

    run: str
    utc: str
    kind: str = TEST
    suite: str | None = None
    block: int | None = None
    case_index: int | None = None
    round: int | None = None
    order: int | None = None
    seed: int | None = None
    attempt: int = 1
    measured_alone: bool = False
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

    `alone_s` is the median response time of single requests, each on a new connection, and
    `keep_alive_s` that of requests on one kept connection, without the first one. `each_s` are the
    times of which `alone_s` is the median; the first request to the server took `first_s`, which
    may be longer: it may prepare something. `body_bytes` is the length of the first response's
    body, and `content` the part of it that its suite compares. With `is_stable` every response
    under load must have the same body. `idle_cores` are those that an application uses between
    requests. `alone_after_s` is the shortest response time of single requests after the load of a
    probe, at most their CPU time. `fails_after`: one of these had a status of 500 or above.
    """

    alone_s: float | None = None
    each_s: tuple[float, ...] = ()
    keep_alive_s: float | None = None
    body_sha256: str | None = None
    body_bytes: int | None = None
    is_stable: bool | None = None
    content: str | None = None
    idle_cores: float | None = None
    alone_after_s: float | None = None
    first_s: float | None = None
    fails_after: bool = False

    @property
    def prepares_s(self) -> float:
        """The time that the first request to each process takes to prepare something; 0: hardly."""
        first_s, alone_s = self.first_s or 0.0, self.alone_s or 0.0
        return first_s if first_s > max(PREPARES_S, PREPARES * alone_s) else 0.0


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
    """The load tool's figures, and a ratio that the trial adds.

    `little_ratio` is the mean number of concurrent requests over the number of users: that which
    the tool reports, or else rate x mean.
    """

    little_ratio: float | None = None


@dataclass(frozen=True)
class Memory:
    """The peak memory of a process tree in MiB; PSS counts shared pages once.

    `whole_mib` are the private pages of all processes, and once the pages that they share: those of
    the process that shares most. Unlike PSS it does not depend on other programs that share pages.
    `started_mib` is the same before the first load of a server, `after_mib` after the last one, and
    `collected_mib` after a full garbage collection in its processes then.

    The tree of a server `dask` with `scheduler` or `ssh` does not contain the workers.
    """

    pss_mib: float | None = None
    uss_mib: float | None = None
    rss_mib: float | None = None
    whole_mib: float | None = None
    started_mib: float | None = None
    after_mib: float | None = None
    collected_mib: float | None = None


@dataclass(frozen=True)
class HostUse:
    """The CPU use of the machine in the window, and its speed.

    `busy_s` is the CPU time of all processes, `own_cpu_s` that of this program, the upstream and
    idle servers. `others_cpu` is the share of the machine's CPU that other processes used, and
    `others` names the busiest of them. `services_cpu` is that of the programs to which the server
    has connections, and `steal` the share that the hypervisor used. `cpu_pressure` is the share of
    time in which a thread waited for a CPU, and `started` the number of processes and threads that
    all programs started. `python_s` and `memory_s` are the durations of two
    fixed pieces of work just before the window.
    """

    busy_s: float | None = None
    own_cpu_s: float | None = None
    others_cpu: float | None = None
    services_cpu: float | None = None
    others: tuple[str, ...] = ()
    steal: float | None = None
    cpu_pressure: float | None = None
    started: int | None = None
    load_average: tuple[float, ...] = ()
    python_s: float | None = None
    memory_s: float | None = None


@dataclass(frozen=True)
class Throttling:
    """How often a CPU quota stopped the server: that of its control group or of a parent of it.

    `quota` is in CPUs. In `throttled` of `periods` the quota was used up, and the kernel stopped
    all threads until the next period. `stopped_s` is for how long, as a sum over all CPUs. None: no
    quota, or unknown.
    """

    quota: float | None = None
    periods: int | None = None
    throttled: int | None = None
    stopped_s: float | None = None

    @property
    def share(self) -> float | None:
        """The share of periods in which the threads were stopped."""
        return (
            self.throttled / self.periods if self.periods and self.throttled is not None else None
        )

    @property
    def text(self) -> str:
        """How often, in words."""
        quota = "unknown size" if self.quota is None else cpus(self.quota)
        return (
            f"{self.throttled} of {self.periods} periods were throttled: the quota of {quota} was "
            "used up, and all threads stopped until the next period"
        )


@dataclass(frozen=True)
class MemoryLimit:
    """The limit of the server's memory that its use came nearest to, in MiB.

    `by` is what limits it: its control group, ulimit -v or ulimit -d. `used_mib` is the peak of the
    memory for which the limit holds; that of cached files is not counted. `kills` is the number of
    processes that the kernel killed at the limit, `swap_mib` the peak of the server's memory that
    was swapped out.
    """

    by: str | None = None
    limit_mib: float | None = None
    used_mib: float | None = None
    kills: int | None = None
    swap_mib: float | None = None

    @property
    def text(self) -> str:
        """What was reached, in words."""
        if self.by is None or self.limit_mib is None:
            return f"{self.swap_mib or 0.0:.0f} MiB of the server's memory were swapped out"
        limit = f"{self.limit_mib:.0f} MiB of {self.by}"
        if self.kills:
            killed = counted(self.kills, "process")
            return f"the kernel killed {killed} at the memory limit, {limit}"
        return f"the server uses {self.used_mib or 0.0:.0f} of the {limit}"


PORTS_USED = 0.9  # share of the ports, from which it takes the kernel long to find one; a guess
PREPARES_S, PREPARES = 0.3, 3.0  # s and times a later request, from which a first one prepares
CPU_FULL = 0.9  # share of the cores, from which threads that compute wait for each other; a guess


@dataclass(frozen=True)
class ClientPorts:
    """The connections that clients of this machine open, and the ports that they get for them.

    So many are `available` for each address, and so many closed connections were in `time_wait` at
    the peak, each of which may block a port. `opened` is the number of connections that clients of
    this network namespace opened in the window, including the load tool. `calls_per_s` is how often
    the server sent something on its connections to others and had a response, `used` the number of
    these connections on which it did so within 0.8 s or 1.6 s, and `kept` the share of them that
    were still there then. `sent_again` is the share of new connections on which the server had
    received something, such as a greeting, and waited for something else.
    """

    available: int | None = None
    time_wait: int | None = None
    opened: int | None = None
    calls_per_s: float | None = None
    used: int | None = None
    kept: float | None = None
    sent_again: float | None = None

    @property
    def are_used_up(self) -> bool:
        """Whether hardly a port is free, if the kernel does not use those in TIME_WAIT again."""
        return (self.time_wait or 0) >= PORTS_USED * (self.available or math.inf)

    @property
    def text(self) -> str:
        """What is used up, in words."""
        used = "" if self.time_wait is None else f", {self.time_wait:,} of them in TIME_WAIT"
        ports = "all ports" if self.available is None else f"the {self.available:,} ports"
        return f"{ports} of clients are used up{used}: new connections fail"


@dataclass(frozen=True)
class ProcessShare:
    """What one of several processes that accept connections had of the load.

    `requests` is the number of requests that it answered and `cpu_s` its CPU time in the window,
    `connections` the number of kept connections that it had; None is unknown.
    """

    requests: int | None = None
    connections: int | None = None
    cpu_s: float | None = None


@dataclass(frozen=True)
class Resources:
    """The resources that a server's process tree used in the window, and their peaks.

    `cpu_s` is user and system time, `queued_s` the time in which its threads waited for a CPU, and
    `children_cpu_s` that of child processes that have ended, which `cpu_s` includes.
    Context switches are those of all threads, except threads that started and ended within 0.1 s.
    `connections` has the number of kept connections of each accepting process, in descending order,
    `requests` the number of requests that each process answered: None if only one can. `shares`
    has both for each of these processes, the one with most requests first.
    `page_faults` is the number of pages that its processes got from the kernel, or copied.
    `listen_overflows` is the number of connections that the server's listen queue dropped; if this
    is unknown, that of all listen queues of the machine.
    """

    cpu_s: float | None = None
    queued_s: float | None = None
    children_cpu_s: float | None = None
    switches_voluntary: int | None = None
    switches_involuntary: int | None = None
    cpu_ms_per_request: float | None = None
    cores_used: float | None = None
    processes: int | None = None
    threads: int | None = None
    fds: int | None = None
    connections: tuple[int, ...] | None = None
    requests: tuple[int, ...] | None = None
    shares: tuple[ProcessShare, ...] = ()
    listen_overflows: int | None = None
    page_faults: int | None = None
    throttling: Throttling = Throttling()
    ports: ClientPorts = ClientPorts()
    memory: Memory = Memory()
    memory_limit: MemoryLimit = MemoryLimit()
    host: HostUse = HostUse()


@dataclass(frozen=True)
class Tasks:
    """Times measured in the server: means of a task under load, and of a single task (`alone_*`).

    `wall_s`, `cpu_s` and `queued_s` are a task's wall time, CPU time and wait for a CPU; for a
    user's application they are those of a request, on the thread that calls the application.
    `alone_high_s` is the upper end of the 95 % interval of `alone_s`, and `alone_blocked_s` the
    wall time of a single task without its CPU time and its wait for a CPU.
    A slot runs one task at a time, and `slot_s` is the time for which a task occupies a slot.
    `loop_lag_*` is the delay of the event loop.
    """

    slots: int | None = None
    slot_s: float | None = None
    wall_s: float | None = None
    cpu_s: float | None = None
    queued_s: float | None = None
    alone_s: float | None = None
    alone_high_s: float | None = None
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
    of the window: if several processes run the tasks, the mean of their GILs, and `each` has the
    share of each of them, the largest first. `switches` is the number of times in the window that
    the GIL passed to another thread, and `hold_p75_s` the 75th percentile of hold times, weighted
    by time. `why` is the reason if they are unknown.
    """

    hold: Share = Share()
    utilisation: Share = Share()
    switches: int | None = None
    hold_p75_s: float | None = None
    each: tuple[float, ...] = ()
    why: str | None = None


@dataclass(frozen=True)
class Record:
    """The results of one trial: one load of one server, and the phases before and after it.

    `who` is None if the stacks of the server were not sampled.

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
    who: Who | None = None
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
    def is_cpu_full(self) -> bool:
        """Whether the server used nearly all cores of the machine; False if that is unknown."""
        cores = self.environment.get("cores")
        return isinstance(cores, int) and (self.resources.cores_used or 0.0) >= CPU_FULL * cores

    @property
    def is_unavailable(self) -> bool:
        """Whether the case could not be measured at all."""
        return self.problem is not None and self.problem.kind != LOAD


Value = Callable[[Record], float | None]
RoundKey = tuple[str, int | None, int | None]  # run, block, number


@dataclass(frozen=True)
class RunRecords:
    """Records in the order in which they were measured."""

    records: Sequence[Record]

    def select_case(self, *keys: tuple[object, ...]) -> RunRecords:
        """Return the records of one case, which may have several keys."""
        return RunRecords([record for record in self.records if record.key in keys])

    def at(self, case_index: int) -> RunRecords:
        """Return the records of the case at a place in the plan."""
        return RunRecords(
            [record for record in self.records if record.trial.case_index == case_index]
        )

    def last_attempts(self) -> list[Record]:
        """Return the records without those of attempts that were retried."""
        trials = [record.trial for record in self.records]
        rounds = [
            (record.key, trial.case_index, trial.run, trial.kind, trial.block, trial.round)
            for record, trial in zip(self.records, trials, strict=True)
        ]
        last = dict(zip(rounds, (trial.attempt for trial in trials), strict=True))
        return [
            record
            for record, key in zip(self.records, rounds, strict=True)
            if record.trial.kind == TEST or record.trial.attempt == last[key]
        ]

    def windows(self) -> list[Record]:
        """Return the last attempts of windows."""
        return [record for record in self.last_attempts() if record.trial.kind == WINDOW]


def without_repeated_argv(record: Record, earlier: Sequence[Record]) -> Record:
    """Omit the load tool's argv if the last one of the case is the same, except for the URL."""
    same = (
        each
        for each in reversed(earlier)
        if each.load.argv and each.key == record.key and each.trial.kind == record.trial.kind
    )
    last = next(same, None)
    if last is None or not record.load.argv or _command(last) != _command(record):
        return record
    return replace(record, load=replace(record.load, argv=None))


def _command(record: Record) -> list[str]:
    url = record.load.url or ""
    return [word.replace(url, "{url}") if url else word for word in record.load.argv or ()]


def select_for_rate(windows: Sequence[Record]) -> Sequence[Record]:
    """Return the windows from which a case's rate is computed.

    These are the windows with the other servers of the block running. Windows with
    `measured_alone` measure memory, and are used only if there are no others: a server is a little
    faster if no idle servers run at the same time.
    """
    return [record for record in windows if not record.trial.measured_alone] or windows


def average_by_round(windows: Sequence[Record], value: Value) -> Mapping[RoundKey, float]:
    """Return the geometric mean of a value over the windows of one case in each round.

    Rounds without a value are omitted. Values of 0 or less are ignored, and so are windows with a
    problem: the number of requests that a server completed before it died is not a rate.
    """
    known: dict[RoundKey, list[float]] = {}
    for record in windows:
        if record.problem is None and (found := value(record) or 0.0) > 0:
            trial = record.trial
            known.setdefault((trial.run, trial.block, trial.round), []).append(found)
    return {which: statistics.geometric_mean(values) for which, values in known.items()}


def pairs_by_round(
    one: Sequence[Record], other: Sequence[Record], value: Value
) -> list[tuple[float, float]]:
    """Return the pairs of values of two cases, for each round in which both have a value."""
    first, second = average_by_round(one, value), average_by_round(other, value)
    return [(found, second[which]) for which, found in first.items() if which in second]


T = TypeVar("T")


class SchemaError(ValueError):
    """A record that was written by another version of this program."""


def to_line(record: Record) -> str:
    """Return a record as one line of JSON, with `schema` first and without a line break.

    The facts of the machine are omitted, because they are stored in run.json.
    """
    values = asdict(record)
    del values["environment"]
    return json.dumps({"schema": SCHEMA, **values}, allow_nan=False)


def from_line(line: str) -> Record:
    """Parse a record; raise SchemaError for another schema, ValueError for any other error."""
    values = files.parse_json(line)
    if not isinstance(values, dict):
        raise ValueError("it is not a JSON object")
    schema = values.pop("schema", None)
    if schema != SCHEMA:
        raise SchemaError(f"it has schema {repr(schema)[:40]}, and this version reads {SCHEMA}")
    values.pop("environment", None)
    return dataclass_from(Record, values)


def dataclass_from(cls: type[T], values: object) -> T:
    """Build a dataclass from parsed JSON; unknown fields are ignored.

    Raise ValueError with the path of a value that has another type than its field.
    """
    try:
        return msgspec.convert(values, cls)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
