"""Build the record of a trial, and its flags: warnings about its figures, each with a remedy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from offload.engine import server, workload
from offload.engine.application import Application
from offload.engine.figures import (
    LONG_OTHERS,
    LONG_STEAL,
    MAX_OTHERS,
    MAX_STEAL,
    THROTTLED,
    name_others,
)
from offload.engine.host import environment
from offload.engine.load_phase import GIL, LoadOutcome, SingleRequest
from offload.engine.record import (
    LONG,
    WINDOW,
    Baseline,
    CaseFacts,
    GilFacts,
    LoadFacts,
    Record,
    ServerFacts,
    Share,
    Trial,
)
from offload.errors import Flag, Problem, UserError
from offload.registry import catalog
from offload.suites import Case
from offload.units import percent
from offload.upstream import Upstream


def build_record(
    trial: Trial,
    case: CaseFacts,
    facts: ServerFacts,
    before: Baseline,
    alone: SingleRequest,
    loaded: LoadOutcome,
    baseline_flags: tuple[Flag, ...] = (),
) -> Record:
    """Build the record of a trial from the results of its phases."""
    record = Record(
        trial=trial,
        case=case,
        server=facts,
        baseline=before,
        load=loaded.load,
        result=loaded.result,
        resources=loaded.resources,
        tasks=replace(
            loaded.tasks,
            alone_s=alone.task_s,
            alone_high_s=alone.task_high_s,
            alone_cpu_s=alone.task_cpu_s,
            alone_blocked_s=alone.blocked_s,
        ),
        gil=_gil(loaded.gil, alone),
        application=loaded.application,
        flags=baseline_flags + loaded.flags,
        problem=loaded.problem,
        environment=environment(),
    )
    return replace(record, flags=record.flags + trial_flags(record))


def _gil(under_load: GilFacts, alone: SingleRequest) -> GilFacts:
    hold = Share(alone.hold.share, alone.hold.low, alone.hold.high)
    return replace(under_load, hold=hold, why=under_load.why or alone.hold.why)


PROTECTION = ("max_wait", "task_timeout", "max_connections")  # known with protect=yes
CLUSTER = ("scheduler", "ssh", "dask_isolate")  # of dask
SETTINGS = (
    "workers",
    "processes",
    "reuse_port",
    "backlog",
    "start_method",
    "protect",
    "health",
    "bind",
    *CLUSTER,
    *PROTECTION,
)
INTERPRETER = (
    "python",
    "implementation",
    "gil_enabled",
    "gil_enabled_by",
    "free_threaded_build",
    "python_gil",
    "switch_interval_s",
    "jit",
    "worker_interpreters",
)
Facts = Mapping[str, object]


def new_trial(run: str, **known: Any) -> Trial:
    """Return the facts of a trial of `run` that starts now."""
    return Trial(run, datetime.now(UTC).isoformat(timespec="seconds"), **known)


def case_facts(case: Case, upstream: Upstream | None) -> CaseFacts:
    """Return the facts of a case that are known before it is measured."""
    return CaseFacts(
        id=case.id,
        server=case.server,
        task=case.task,
        command=case.command,
        users=case.users,
        python=case.python,
        keep_alive=case.keep_alive,
        seconds=case.seconds if case.requests is None else None,
        requests=case.requests,
        request=None if case.request is None else case.request.masked,
        clients=case.clients,
        upstream=None if upstream is None else _upstream(upstream),
        path=case.path,
        origin=None if case.origin is None else case.origin.label,
    )


def _upstream(upstream: Upstream) -> dict[str, object]:
    return {"kind": upstream.kind, "latency_s": upstream.latency_s}


def server_facts(facts: Facts) -> ServerFacts:
    """Return the facts that a server reported in its ready line."""
    workers = facts.get("workers")
    return ServerFacts(
        workers=workers if isinstance(workers, int) else None,
        settings={key: facts[key] for key in SETTINGS if key in facts},
        interpreter={key: facts[key] for key in INTERPRETER if key in facts},
    )


def unavailable(trial: Trial, case: CaseFacts, settings: Facts, error: UserError) -> Record:
    """Build the record of a case that could not be measured."""
    return Record(
        trial,
        case,
        ServerFacts(settings=settings),
        application=getattr(error, "application", None) or Application(),
        problem=Problem(error.kind, error.what, error.remedy),
        environment=environment(),
    )


def with_gil(facts: ServerFacts, state: Facts) -> ServerFacts:
    """Add the state of the GIL after a load, because an import may have changed it."""
    return replace(facts, interpreter={**facts.interpreter, **state})


def with_ending(facts: ServerFacts, running: server.Server) -> tuple[ServerFacts, tuple[Flag, ...]]:
    """Add the facts of a server that has ended: its total CPU time, and the state of its GIL."""
    left = Flag("left", "processes were left after the stop and were killed")
    gil = {key: running.ending[key] for key in GIL if running.ending.get(key) is not None}
    if facts.interpreter.get("gil_enabled"):  # in a worker: it cannot be disabled again
        gil["gil_enabled"] = True
    complete = replace(with_gil(facts, gil), life_cpu_s=round(running.cpu_s, 6))
    return complete, (left,) if running.left else ()


# Flags: warnings about the figures of a record, each with a remedy.
#
# A round is retried once if one of its flags may be absent in a retry. Exception: a flag that a
# retry of the same case has raised before.


CLIENT_BOUND = 0.7  # share of its usable CPU above which the load tool may limit the rate
LITTLE = 0.02  # maximum difference of rate x mean / users from 1
EXACT = "per request"  # the method of response times that were measured independently of the rate
STALL = 0.035  # s by which a kept connection is slower: a delayed ACK takes 40 ms
UNEVEN = 2  # maximum ratio of the connections of two processes of a server
BALANCE = "use new connections (keep_alive=no), or a balancer in front"  # more users stay uneven
UNEVEN_REQUESTS = 1.5  # the same for their requests
CHANCE = 3.0  # standard deviations by which chance alone may divide requests unevenly
# Kinds of flags that may be absent in a retry. None depends on the rate, so that retries do not
# select rates.
PASSING = {
    "problem",
    "hung",
    "others",
    "steal",
    "failures",
    "overflows",
    "window",
    "left",
    "hosts",
    "clock",
    "start",
    "count",
}
COUNT = 0.001  # share by which the server's count of completed tasks may differ from the hosts'
BACKLOGGED = {"sync"}  # servers whose users wait in the listen queue, unseen by Little's law


def trial_flags(record: Record) -> tuple[Flag, ...]:
    """Return the warnings about one record's figures."""
    return tuple(_detect(record))


def flag_kinds(record: Record) -> set[str]:
    """Return the kinds of a record's flags, and "problem" if its load failed."""
    died = record.problem is not None and not record.is_unavailable
    return {flag.kind for flag in record.flags} | ({"problem"} if died else set())


def retry_reasons(record: Record, earlier: Sequence[Record]) -> dict[str, str]:
    """Return the reasons to retry a round, by kind: its flags that may be absent in a retry.

    A flag is not a reason if an earlier retry of the same case had it, too, or if the case itself
    causes it: if there are more users than the listen queue holds, it overflows and requests fail.
    """
    own = {k for r in earlier if r.key == record.key and r.trial.attempt > 1 for k in flag_kinds(r)}
    if workload.is_crowded(record.case, record.server):
        own |= {"overflows", "failures"}
    found = (flag_kinds(record) & PASSING) - own
    messages = {flag.kind: flag.message for flag in record.flags if flag.kind in found}
    if record.problem and "problem" in found:
        messages["problem"] = record.problem.text
    return messages


def tool_flags(record: Record, missing: str | None) -> tuple[Flag, ...]:
    """Return a flag with the reason if a long run did not use the published tool."""
    driver = record.load.driver
    if missing is None or record.trial.kind != LONG or driver is None:  # None: no tool ran
        return ()
    return (Flag("tool", f"{missing}; {driver} is used instead"),)


def body_flags(record: Record, earlier: Sequence[Record]) -> tuple[Flag, ...]:
    """Return a flag for each server of the same task whose response has different bytes."""
    case = record.case
    if not catalog.has_constant_bodies(case.task, case.path):
        return ()
    alike = [r for r in earlier if (r.case.task, r.case.request) == (case.task, case.request)]
    others = {r.case.server: r.case.id for r in alike if _differ(r, record)}
    return tuple(
        Flag(
            "bodies",
            f"the responses of {case.id} differ from those of "
            + ("its earlier windows" if other == case.id else other),
            "compare them; if this is intended, set STABLE = False in the task's file",
        )
        for _, other in sorted(others.items())
    )


def _detect(record: Record) -> Iterator[Flag]:
    busy = record.load.busy
    if busy is not None and busy > CLIENT_BOUND:
        used = f"{record.load.driver} used {percent(busy)} of the CPU it can use"
        yield Flag("client-bound", used, "send the load from another machine: from=")
    if _breaks_littles_law(record):
        ratio = record.result.little_ratio
        yield Flag("little", f"rate x mean / users is {ratio}, not 1", "users waited elsewhere")
    yield from _detect_machine(record)
    if record.resources.listen_overflows:
        dropped = f"the listen queue dropped {record.resources.listen_overflows} connections"
        remedy = (
            "response times include the time to connect again, except for users that still waited "
            "at the end (if the server has backlog=, it sets the queue length)"
        )
        yield Flag("overflows", dropped, remedy)
    if record.result.failures:
        yield Flag("failures", f"{record.result.failures} requests failed")
    if changed := record.result.failed.get("body"):
        remedy = "if this is intended, set STABLE = False in the task's file"
        seen = f"{changed} responses under load had another body than the first one"
        yield Flag("bodies", seen, remedy)
    if (
        None not in (record.baseline.keep_alive_s, record.baseline.alone_s)
        and _stall_s(record) >= STALL
    ):
        more = f"a request takes {_stall_s(record) * 1000:.0f} ms longer on a kept connection"
        remedy = "set TCP_NODELAY in the server; for uvicorn with workers, name its loop"
        yield Flag("stall", more, remedy)
    if (differs := _differing_count(record.load)) is not None:
        yield Flag("count", differs, "load the server by this command only")
    times_s = response_times_s(record)
    if None not in times_s[:2] and len(times_s) > 1 and not differ_in_time(times_s):
        return  # the processes only wait: others would not be faster
    if has_uneven_requests(requests := record.resources.requests or ()):
        shares = ", ".join(str(count) for count in requests)
        remedy = BALANCE
        if record.server.settings.get("reuse_port") == "no":
            remedy = "reuse_port=yes divides connections evenly"
        yield Flag("uneven", f"the server's processes answered {shares} requests", remedy)
    elif _is_uneven(record.resources.connections or ()):
        shares = ", ".join(str(count) for count in record.resources.connections or ())
        had = f"the server's processes had {shares} connections"
        yield Flag("uneven", had, BALANCE)


def _detect_machine(record: Record) -> Iterator[Flag]:
    """Yield the flags about the CPU that the load did not get."""
    host = record.resources.host
    is_window = record.trial.kind == WINDOW
    most_others = MAX_OTHERS if is_window else LONG_OTHERS
    if host.others_cpu is not None and host.others_cpu > most_others:
        share = f"{percent(host.others_cpu)} of the machine's CPU went to other processes"
        named = name_others([record])
        yield Flag("others", f"{share}{named}", "end them and measure again")
    most_steal = MAX_STEAL if is_window else LONG_STEAL
    if host.steal is not None and host.steal > most_steal:
        stolen = f"the hypervisor used {percent(host.steal, 1)} of the CPU"
        yield Flag("steal", stolen, "measure at a quieter time")
    ports = record.resources.ports
    if ports.are_used_up and record.result.failed.get("other"):
        yield Flag("ports", ports.text, "use keep_alive=yes, or widen net.ipv4.ip_local_port_range")
    if (record.resources.throttling.share or 0.0) >= THROTTLED:
        fix = "raise the quota, or reserve cores (docker: --cpuset-cpus=, systemd: AllowedCPUs=)"
        yield Flag("throttled", record.resources.throttling.text, fix)


def _breaks_littles_law(record: Record) -> bool:
    if record.result.little_ratio is None or record.case.server in BACKLOGGED:
        return False
    is_known = record.load.model == "closed" and record.result.response.how == EXACT
    return is_known and abs(record.result.little_ratio - 1) > LITTLE


def _differing_count(load: LoadFacts) -> str | None:
    """Return how the server's count of completed tasks contradicts that of the hosts, if it does.

    The server may have completed requests whose response did not arrive, too.
    """
    if load.served is None or load.received is None:
        return None
    most = (load.received + (load.unanswered or 0)) * (1 + COUNT)
    if load.received * (1 - COUNT) <= load.served <= most:
        return None
    return f"the server counted {load.served} responses, the hosts {load.received}"


def _stall_s(record: Record) -> float:
    return (record.baseline.keep_alive_s or 0.0) - (record.baseline.alone_s or 0.0)


FEWEST = 20  # requests of a process, from which its response time is known to a quarter; a guess
SLOWER = 2.0  # times the response time of the fastest process; a guess


def response_times_s(record: Record) -> tuple[float | None, ...]:
    """Return the response time of each of several processes, if clients keep their connections.

    This is Little's law in a closed loop without think time: a kept connection always has one
    request in progress. None is unknown, also that of a process without connections.
    """
    elapsed_s = record.result.elapsed_s
    return tuple(
        each.connections * elapsed_s / each.requests
        if elapsed_s and each.connections and each.requests and each.requests >= FEWEST
        else None
        for each in (record.resources.shares if record.load.model == "closed" else ())
    )


def differ_in_time(times_s: Sequence[float | None]) -> bool:
    """Whether the response times of processes are very different."""
    known = [each for each in times_s if each is not None]
    return len(known) > 1 and max(known) >= SLOWER * min(known)


def has_uneven_requests(requests: Sequence[int]) -> bool:
    """Whether requests were divided between processes more unevenly than by chance."""
    if len(requests) < 2:
        return False
    most, least = max(requests), min(requests)
    by_chance = CHANCE * math.sqrt(most + least)
    return most > UNEVEN_REQUESTS * least and most - least > by_chance


def _is_uneven(connections: Sequence[int]) -> bool:
    """Whether connections were unevenly divided, if there were at least two per process."""
    if len(connections) < 2 or sum(connections) < 2 * len(connections):
        return False
    return connections[0] > UNEVEN * connections[-1]


def _differ(one: Record, other: Record) -> bool:
    if None not in (one.baseline.content, other.baseline.content):  # the part their suite compares
        return one.baseline.content != other.baseline.content
    return (
        None not in (one.baseline.body_sha256, other.baseline.body_sha256)
        and one.baseline.body_sha256 != other.baseline.body_sha256
    )
