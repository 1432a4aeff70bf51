"""Servers that a user starts: run one in the foreground, find those that run, and load one.

`offload run_server` execs the server, so that Ctrl-C and kill reach it. results/.servers/PORT.json
has its ready line. `offload run_load_test` loads it once, limited to some CPUs with pin=.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from offload import upstream
from offload.engine import builder, journal, light_route, load_phase, server
from offload.engine.builder import build_record
from offload.engine.light_route import NO_PATHS, LightPaths
from offload.engine.load_phase import SingleRequest, is_stable
from offload.engine.processes import ProcessTree, thread_ids
from offload.engine.record import Baseline, CaseFacts, Record, ServerFacts
from offload.engine.server import environment_for, needs_upstream
from offload.engine.workload import GET, send_first_requests
from offload.errors import MachineError, StartError, StorageError, UsageError, escaped
from offload.loads import HERE, Load, Sender, mask_query
from offload.registry import addresses, catalog
from offload.suites import Case, Placement, Request
from offload.suites._case import ANYWHERE
from offload.upstream import Upstream


def exec_server(case: Case, port: int) -> None:
    """Replace this process by a case's server on `port`; raise MachineError if it does not start.

    If the task needs the upstream, start the upstream first; it ends with the server.
    """
    argv, environment = server.command(case, port)
    check_port(port, str(case.settings.get("bind", addresses.LOOPBACK)))
    environment |= environment_for(case, argv[0])
    if needs_upstream(case):
        held = upstream.hold()
        held.inherit()
        environment |= held.upstream.environment()
    environment["SERVER_FILE"] = str(facts_file(port))
    sys.stdout.flush()
    try:
        os.execve(argv[0], argv, {**server.inherited_environment(), **environment})  # noqa: S606 - no shell
    except OSError as error:
        what = f"python={argv[0]} does not start: {error.strerror}"
        raise MachineError(what, "offload pythons lists those that do") from error


def check_port(port: int, address: str = addresses.LOOPBACK) -> None:
    """Raise MachineError if a port of an address is in use, or if it is another machine's."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                fix = f"stop the process that listens there, or use port={port + 1}"
                raise MachineError(f"port {port} is busy", fix) from error
            if error.errno == errno.EADDRNOTAVAIL:
                what = f"bind={address} is no address of this machine"
                raise MachineError(what, f"use one of its own, or {addresses.ALL}") from error
            raise MachineError(f"port {port}: {error.strerror}", "choose another port") from error


def facts_file(port: int) -> Path:
    """Return the path of the file for a server on `port`, and create its folder."""
    folder = journal.RESULTS / ".servers"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fix = "check permissions and disk space, or set RESULTS=folder"
        raise StorageError(f"{folder}: {error.strerror}", fix) from error
    return folder / f"{port}.json"


def find_server(port: int | None = None) -> dict[str, object]:
    """Return the ready line of the only running server, or of the one on `port`.

    Raise MachineError if there is none, UsageError if there are several.
    """
    servers = {int(str(facts["port"])): facts for facts in _read_running()}
    if port is not None and port not in servers:
        raise MachineError(
            f"no server was started on port {port}", f"offload run_server 3 port={port}"
        )
    if not servers:
        raise MachineError(
            "no server is running", "start one in another terminal: offload run_server 3"
        )
    if port is None and len(servers) > 1:
        ports = " or ".join(f"port={known}" for known in sorted(servers))
        raise UsageError(f"{len(servers)} servers are running", f"select one by {ports}")
    return servers[port if port is not None else next(iter(servers))]


def _read_running() -> list[dict[str, object]]:
    """Read the facts of running servers; remove the files of servers that were killed."""
    running = []
    for path in sorted((journal.RESULTS / ".servers").glob("*.json")):
        try:
            facts = json.loads(path.read_text())
            is_running = _is_running(int(facts["pid"]), facts.get("started"))
            facts["port"] = int(facts["port"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            what = escaped(f"{path} does not describe a server ({error})")
            print(f"warning: {what}: remove it", file=sys.stderr)
            continue
        if not is_running:
            path.unlink(missing_ok=True)
            continue
        running.append(facts)
    return running


def _is_running(pid: int, started: int | None) -> bool:
    """Whether the process `pid` runs and started at `started`, in clock ticks since boot (Linux).

    The start time is compared because another process may have the same pid later.
    """
    try:
        ticks = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19]
    except OSError:
        return sys.platform != "linux" and psutil.pid_exists(pid)
    return started is None or int(ticks) == started


def load_server(
    facts: dict[str, object],
    load: Load,
    driver: str,
    sent: Request = GET,
    placement: Placement = ANYWHERE,
) -> Record:
    """Load one of our servers with the request `sent`; `facts` are its ready line."""
    task = str(facts["task"])
    entry = catalog.find_server(str(facts["server"]))
    defaults = {key: value for key, value in entry.settings.items() if key in facts}
    given = {key: facts[key] for key, value in defaults.items() if facts[key] != value}
    given |= {key: facts[key] for key in ("bind",) if key in facts}
    python, path = (_text(facts.get(key)) for key in ("executable", "path"))
    case = Case(
        entry.name,
        task,
        load.users,
        load.seconds or 0.0,
        load.keep_alive,
        given,
        python=None if python == sys.executable else python,
        path=path,
        request=None if sent == GET else replace(sent, header=None),
        placement=placement,
    )
    fetched_from = _text(facts.get("upstream"))
    known = None if fetched_from is None else upstream.find(fetched_from)
    before = _baseline(load.url, case, sent)
    expected = before.body_sha256 if before.is_stable else None
    with pinned(int(str(facts["pid"])), placement.server_cpus):
        return _measure(
            builder.case_facts(case, known),
            builder.server_facts(facts),
            before,
            replace(load, response_sha256=expected),
            driver,
            placement.sender,
            facts,
            known,
            placement.pin,
            light_route.find(replace(case, request=sent), load.url, facts, before),
        )


def _text(fact: object) -> str | None:
    return None if fact is None else str(fact)


def _baseline(url: str, case: Case, sent: Request) -> Baseline:
    """Measure the first requests, which also wait until the backlog of an earlier load is done.

    With 25 users, 4 workers and a task of 0.28 s the backlog is 1.75 s of work, which would slow
    down the next load by 5 %.
    """
    try:
        first = send_first_requests(url, request=sent)
    except StartError:  # the load counts these responses as failures
        return Baseline()
    return Baseline(
        alone_s=round(first.alone_s, 6),
        each_s=tuple(round(each_s, 6) for each_s in first.each_s),
        body_sha256=first.body_sha256,
        is_stable=is_stable(first, case),
    )


def load_url(load: Load, driver: str, sender: Sender = HERE) -> Record:
    """Load any URL of this machine, or of one that `sender` allows.

    The facts of its server are unknown.
    """
    shown = mask_query(load.url)
    command = f"run_load_test:url={shown}"
    place = Placement(sender.hosts).label
    case = CaseFacts(f"url/{shown}{place}", "url", shown, command, load.users)
    return _measure(case, ServerFacts(), Baseline(), load, driver, sender)


def _measure(
    case: CaseFacts,
    server: ServerFacts,
    before: Baseline,
    load: Load,
    driver: str,
    sender: Sender,
    facts: dict[str, object] | None = None,
    known: Upstream | None = None,
    pin: str | None = None,
    beside: LightPaths = NO_PATHS,
) -> Record:
    case = replace(
        case,
        seconds=load.seconds,
        requests=load.requests,
        keep_alive=load.keep_alive,
        asked_rate=None if load.arrivals is None else load.arrivals.rate,
        think_s=load.think,
    )
    if load.message.headers:
        headers = "; ".join(f"{k}: {v}" for k, v in load.message.masked().headers.items())
        command = f"{case.command} ({headers})"
        case = replace(case, id=f"{case.id} {headers}", command=command)
    trial = builder.new_trial(journal.LASTING)
    loaded = load_phase.run(load, driver, facts, known, sender=sender, pin=pin, beside=beside)
    server = builder.with_gil(server, loaded.gil_state)
    return build_record(trial, case, server, before, SingleRequest(), loaded)


@contextlib.contextmanager
def pinned(pid: int, cpus: Sequence[int]) -> Iterator[None]:
    """Limit all threads of a server's process tree to `cpus`; restore their CPUs afterwards.

    Threads and processes that start during the block inherit the limit. Without `cpus` do nothing.
    """
    before: dict[int, set[int]] = {}
    try:
        for thread in _threads(pid) if cpus else ():
            with contextlib.suppress(ProcessLookupError):  # it has ended
                own = os.sched_getaffinity(thread)
                os.sched_setaffinity(thread, cpus)
                before[thread] = own
    except PermissionError:
        _restore(before)
        what = f"pin=: the server (pid {pid}) belongs to another user"
        raise MachineError(what, "start it as the user who measures") from None
    try:
        yield
    finally:
        if before:
            widest = set().union(*before.values())
            started: list[int] = []
            with contextlib.suppress(StartError):  # the server has ended
                started = _threads(pid)
            _restore({**dict.fromkeys(started, widest), **before})


def _threads(pid: int) -> list[int]:
    """Return the ids of all threads of a process tree."""
    return [thread for process in ProcessTree(pid).members for thread in thread_ids(process.pid)]


def _restore(cpus: dict[int, set[int]]) -> None:
    for thread, own in cpus.items():
        with contextlib.suppress(OSError):  # it has ended
            os.sched_setaffinity(thread, own)
