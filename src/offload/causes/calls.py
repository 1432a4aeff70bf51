"""Causes in what requests do too often: hops to threads, layers, connections, calls, processes."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from offload.causes import execution, pools, who
from offload.causes.execution import BODY_PARTS, NEW_OBJECTS, THREAD_HOPS
from offload.causes.figures import Figures, median
from offload.causes.hangs import SLOTS_KEPT
from offload.causes.rules import Cause, Rule, may_explain
from offload.engine import hot_lines
from offload.engine.record import Record
from offload.errors import escaped
from offload.units import counted, percent

# Guesses, unless a source is named.
HOPS = 10  # for each request
HOP_S = 100e-6  # s of CPU for a hop; on Python 3.11: 50 us, 140 us beside others or by asgiref
HOPS_SHARE = 1 / 3  # of the CPU time of a request
LARGE = 32 * 1024  # bytes of a part of a body, from which a larger one gains little
PARTS, PART_S = 200, 6e-6  # of a body; s of CPU for each: 6.4 us on uvicorn, 8.4 us on gunicorn
PARTS_SHARE = 0.5  # of the CPU time of a request
OPENED, OPENED_IDLE = 0.9, 1.8  # connections for each request; in an idle process
SENT_AGAIN = 1 / 3  # share of new connections that wait for a second response: they have a login
OPENED_LOGIN = 0.75  # connections for each request in an idle process, if they have one
STARTED = 0.9  # processes and threads for each request
WINDOW = 1.25  # requests for each user, from which those that do not end in the window hardly count
CALLS, SEQUENTIAL_CALLS = 20, 10  # to others, for each request
ONE_EACH = 1.5  # connections are about as many as requests inside: at most so many times, or 1 / it
KEPT = 0.5  # share of connections that live on
LAYERS, LAYER_S = 3, 100e-6  # of BaseHTTPMiddleware; s of CPU for each, on Python 3.11
LAYERS_SHARE = 1 / 3  # of the CPU time of a request
RETRIED = 0.25  # share of the time of threads, or of the tasks, that sleep before a retry
CREATES = 0.2  # share of the time in which requests create something: without it 25 % more is left
CREATES_MAIN = 0.5  # the same, from which it is why the loop or the GIL is busy
CHILDREN = 0.3  # share of the CPU time in processes that a request starts

NEW_CONNECTIONS = "new_connections"
MANY_CALLS = "many_calls"
NEW_PROCESSES = "new_processes"
DEBUG_TOOLS = "debug_tools"
MIDDLEWARE_LAYERS = "middleware_layers"
RETRIES = "retries"


@dataclass(frozen=True)
class Hops:
    """What a request hands over to threads: its body has so many `parts` of `part_bytes`.

    None is unknown.
    """

    parts: float
    part_bytes: float | None = None


@dataclass(frozen=True)
class Calls:
    """Whether the calls of a request are one after another."""

    are_sequential: bool


@dataclass(frozen=True)
class Children:
    """The CPU time in ms of the processes that a request starts."""

    cpu_ms: float


def find_thread_hops(of: Figures) -> Cause | None:
    """A request hands over to a thread so often that this takes much of its CPU time.

    Each hop ends with a call that its thread hands over to the event loop. If the calls in the
    threads wait for long, the users do not saturate the hops.
    """
    known = [each for record in of.records if (each := _count_hops(record)) is not None]
    if not of.has_loop or not of.alone_s or not known:
        return None
    hops, parts, cpu_s = (statistics.median(values) for values in zip(*known, strict=True))
    is_much = cpu_s > 0 and hops * HOP_S >= HOPS_SHARE * cpu_s
    users = of.records[-1].case.users
    if hops < HOPS or not is_much or of.alone_s > users * hops * HOP_S:
        return None
    body = of.records[-1].baseline.body_bytes
    part_bytes = round(body / parts) if body is not None and parts else None
    return Cause(THREAD_HOPS, round(hops, 1), HOPS, facts=Hops(round(parts, 1), part_bytes))


def _count_hops(record: Record) -> tuple[float, float, float] | None:
    """Return the hops, the parts of the body and the CPU time in s of a request, if known."""
    routes, cpu_ms = record.application.routes, record.resources.cpu_ms_per_request
    hops = execution.count_thread_calls(record)
    if not routes or hops is None or cpu_ms is None:
        return None
    return hops, routes[0].steps.parts or 0.0, cpu_ms / 1000


def find_body_parts(of: Figures) -> Cause | None:
    """The body has so many small parts that sending them takes much of the CPU time."""
    known = [each for record in of.records if (each := _count_parts(record)) is not None]
    if not known or execution.is_idle(of) or not of.alone_s:
        return None
    parts, cpu_s = (statistics.median(values) for values in zip(*known, strict=True))
    # Threads that send parts take the GIL after each, which costs them CPU time under load.
    if parts < PARTS or parts * PART_S < PARTS_SHARE * min(cpu_s, of.alone_s):
        return None
    return Cause(BODY_PARTS, round(parts), PARTS)


def _count_parts(record: Record) -> tuple[float, float] | None:
    """Return the parts of the body and the CPU time in s of a request, if known."""
    routes, cpu_ms = record.application.routes, record.resources.cpu_ms_per_request
    if not routes or routes[0].steps.parts is None or cpu_ms is None:
        return None
    return routes[0].steps.parts, cpu_ms / 1000


def find_middleware_layers(of: Figures) -> Cause | None:
    """Layers of Starlette's BaseHTTPMiddleware take much of the CPU time of each request."""
    layers = median([record.application.layers for record in of.records]) or 0
    cpu_ms = median([record.resources.cpu_ms_per_request for record in of.records])
    if layers < LAYERS or cpu_ms is None or execution.is_idle(of):
        return None
    is_much = layers * LAYER_S >= LAYERS_SHARE * cpu_ms / 1000
    return Cause(MIDDLEWARE_LAYERS, layers, LAYERS) if is_much else None


def find_debug_tools(of: Figures) -> Cause | None:
    """Tools of developers are switched on in a process that is busy."""
    names = of.records[-1].application.debug_tools if of.records else ()
    if not names or execution.is_idle(of):
        return None
    return Cause(DEBUG_TOOLS, len(names), 1, facts=names)


def find_new_connections(of: Figures) -> Cause | None:
    """Each request opens connections to what it calls, and the process is not idle.

    A connection costs CPU time, with TLS several ms, and at least one round trip, with a login also
    time of the other side. In an idle process several count, or one if it is unknown what requests
    wait for, or if on many of them something was received before the last request was sent.
    """
    known = [each for record in of.records if (each := _count_opened(record)) is not None]
    least = OPENED
    if execution.is_idle(of):
        waits = pools.find_waits_elsewhere(of)
        if waits is not None and not pools.is_unknown(waits):
            return None
        least = OPENED_IDLE if waits is None else OPENED
        again = median([record.resources.ports.sent_again for record in of.records]) or 0.0
        if again >= SENT_AGAIN:
            least = OPENED_LOGIN
    if not known or (opened := statistics.median(known)) < least:
        return None
    return Cause(NEW_CONNECTIONS, round(opened, 1), least)


def _count_opened(record: Record) -> float | None:
    """Return the connections that a request opens, at least; None if they are unknown.

    Each request of the load opens one itself, unless it keeps them. In a window with few requests,
    those that do not end in it count, too. If the server's connections to others live on, others
    have opened them.
    """
    ports, result, case = record.resources.ports, record.result, record.case
    opened = None if ports.kept is None or ports.kept >= KEPT else ports.opened
    if opened is None or not result.completed or case.keep_alive or record.load.hosts:
        return None
    ended = result.completed + (result.failures or 0)
    own = ended if ended >= WINDOW * case.users else ended + case.users
    return max(0.0, opened - own) / result.completed


def find_many_calls(of: Figures) -> Cause | None:
    """Each request calls others many times, such as once for each row of a list (N+1)."""
    known = [each for record in of.records if (each := _count_calls(record)) is not None]
    calls = statistics.median(known) if known else 0.0
    are_sequential = _are_sequential(of) and (of.signs.wait_share or 0.0) >= pools.WAITS
    least = SEQUENTIAL_CALLS if are_sequential else CALLS
    if calls < least:
        return None
    return Cause(MANY_CALLS, round(calls, 1), least, facts=Calls(are_sequential))


def _are_sequential(of: Figures) -> bool:
    """Whether requests use about one connection each, while several are inside."""
    used, inside = [record.resources.ports.used for record in of.records], of.signs.concurrency
    known = [each for each in used if each is not None]
    if not known or inside is None or inside < 2 * of.processes:
        return False
    return inside / ONE_EACH <= statistics.median(known) <= ONE_EACH * inside


def _count_calls(record: Record) -> float | None:
    """Return how often a request calls others, failed ones included; None if it is unknown."""
    calls_per_s, result = record.resources.ports.calls_per_s, record.result
    if calls_per_s is None or not result.completed or not result.elapsed_s:
        return None
    return calls_per_s * result.elapsed_s / (result.completed + (result.failures or 0))


def find_retries(of: Figures) -> Cause | None:
    """Requests mostly sleep before a failed call is tried again: by a library or their code."""
    line = of.hottest
    if line is None or line.doing != hot_lines.RETRIES or line.share < RETRIED:
        return None
    if of.signs.wait_share is not None and of.signs.wait_share < RETRIED:
        return None  # it is in a background task: requests do not wait
    return Cause(RETRIES, line.share, RETRIED, line=line)


def find_new_objects(of: Figures) -> Cause | None:
    """Requests of a busy process create something that is slow to create, and could be kept."""
    line = next((r.who.created for r in reversed(of.records) if r.who and r.who.created), None)
    if line is None or execution.is_idle(of):
        return None
    holding = of.signs.gil_utilisation
    if holding is None:  # it is hardly held for longer than the process computes
        holding = min(1.0, of.cores_each or 0.0)
    share = line.share if line.doing == hot_lines.BLOCKS else line.share * holding
    if share < CREATES or line.context in (hot_lines.ASYNCIO_TASK, execution.BACKGROUND):
        return None  # it is short, or not for a request
    return Cause(NEW_OBJECTS, round(share, 3), CREATES, line=line)


def _new_objects_explains(cause: Cause, _: str) -> bool:
    return may_explain(cause) and (cause.value or 0.0) >= CREATES_MAIN


def find_new_processes(of: Figures) -> Cause | None:
    """Each request starts a process, which takes much of the CPU time, and ends."""
    known = [each for record in of.records if (each := _measure_children(record)) is not None]
    if not known or execution.is_idle(of):
        return None
    share, children_ms = (statistics.median(values) for values in zip(*known, strict=True))
    if share < CHILDREN:
        return None
    return Cause(NEW_PROCESSES, round(share, 3), CHILDREN, facts=Children(round(children_ms, 2)))


def _measure_children(record: Record) -> tuple[float, float] | None:
    """Return the share of the CPU time of children that ended, and their ms of a request.

    None if it is unknown, or if requests start none: a server also replaces its workers.
    """
    used, completed = record.resources, record.result.completed
    if used.children_cpu_s is None or not used.cpu_ms_per_request or not completed:
        return None
    if (used.host.started or 0) < STARTED * completed:
        return None
    children_ms = used.children_cpu_s / completed * 1000
    return children_ms / used.cpu_ms_per_request, children_ms


def _many_parts(cause: Cause) -> float | None:
    """Return the number of parts of the body, if most hops are for them."""
    parts = cause.facts.parts if isinstance(cause.facts, Hops) else 0.0
    return parts if parts >= max(HOPS, (cause.value or 0.0) / 2) else None


def _describe_thread_hops(cause: Cause, _: int) -> str:
    hops = f"{cause.value or 0.0:,.0f} times"
    if parts := _many_parts(cause):
        return (
            f"each request hands over to a thread {hops}: its body has {parts:,.0f} parts, and a "
            "def generator or a file is read in a thread for each part"
        )
    return f"each request hands over to a thread {hops}, which takes much of its CPU time"


def _describe_body_parts(cause: Cause, _: int) -> str:
    return (
        f"the body of each response has {cause.value or 0.0:,.0f} parts: to send them one by one "
        "takes much of its CPU time"
    )


def _remedy_thread_hops(cause: Cause) -> str:
    if _many_parts(cause):
        found = cause.facts.part_bytes if isinstance(cause.facts, Hops) else None
        larger = "" if (found or 0) >= LARGE else "yield parts of 64 KiB, "
        return f"{larger}use an async generator, or return the body as a whole"
    return "do the short calls in one thread call, or make them async def"


def _describe_many_calls(cause: Cause, _: int) -> str:
    calls = f"about {cause.value or 0.0:,.0f} times"
    sequential = ", one call after another" if _is_sequential(cause) else ""
    return f"each request calls a database or a service {calls}{sequential}"


def _remedy_many_calls(cause: Cause) -> str:
    at_once = ", or calls at once (asyncio.gather)" if _is_sequential(cause) else ""
    return (
        "fetch what a request needs in one call, such as by a join, a list of keys or a pipeline"
        f"{at_once}; or keep what seldom changes"
    )


def _is_sequential(cause: Cause) -> bool:
    return isinstance(cause.facts, Calls) and cause.facts.are_sequential


def _describe_new_connections(cause: Cause, _: int) -> str:
    opened = max(1, round(cause.value or 0.0))
    return f"each request opens {counted(opened, 'new connection')} to what it calls"


def _describe_new_processes(cause: Cause, _: int) -> str:
    share = f"{percent(cause.value or 0.0)} of the server's CPU time"
    used = share
    if isinstance(cause.facts, Children):
        used = f"{cause.facts.cpu_ms:.3g} ms of CPU a request, {share}"
    return f"each request starts a process: such processes use {used}"


def _describe_middleware_layers(cause: Cause, _: int) -> str:
    return (
        f"each request passes through {counted(int(cause.value or 0), 'layer')} of Starlette's "
        "BaseHTTPMiddleware, each of which starts a task and passes on the response: this takes "
        "much of its CPU time"
    )


def _describe_retries(cause: Cause, _: int) -> str:
    line = "" if cause.line is None else who.place(cause.line)
    return (
        f"requests call others again after failures, and sleep before that in {line}: "
        f"{percent(cause.value or 0.0)} of the threads or tasks that run your code"
    )


def _describe_new_objects(cause: Cause, _: int) -> str:
    what = "objects" if cause.line is None else cause.line.creates
    line = "" if cause.line is None else f", in {who.place(cause.line)}"
    is_loop = cause.line is not None and cause.line.doing == hot_lines.BLOCKS
    does = "blocks the event loop" if is_loop else "holds the GIL"
    share = f"{percent(cause.value or 0.0)} of the time"
    creates = f"create {what}"
    if cause.line is not None and cause.line.creates == hot_lines.MODULE:
        creates = "search for a module that they import"
    return f"requests {creates} again and again{line}, which {does} for {share}"


def _remedy_of_new_objects(cause: Cause) -> str:
    if cause.line is not None and cause.line.creates == hot_lines.STATEMENT:
        return (
            "create one engine of SQLAlchemy for all requests: it caches them; and pass values as "
            "parameters, as a text that changes is compiled each time"
        )
    if cause.line is not None and cause.line.creates == hot_lines.MODULE:
        return (
            "an import that succeeds is kept, so this one fails each time: install what it needs, "
            "or remember that it is missing"
        )
    return "create it once, such as when the application is loaded, and keep it for all requests"


def _describe_debug_tools(cause: Cause, _: int) -> str:
    assert isinstance(cause.facts, tuple)
    names = " and ".join(map(escaped, cause.facts))
    verb = "is" if len(cause.facts) == 1 else "are"
    return f"{names} {verb} switched on, which may cost much of the CPU time of each request"


RULES = (
    Rule(
        DEBUG_TOOLS,
        find_debug_tools,
        _describe_debug_tools,
        "switch off what only developers need, and measure again",
        is_symptom_of=execution.STOPPED,
    ),
    Rule(
        MIDDLEWARE_LAYERS,
        find_middleware_layers,
        _describe_middleware_layers,
        "write them as pure ASGI middleware, or as a single layer",
        is_symptom_of=execution.STOPPED,
    ),
    Rule(
        THREAD_HOPS,
        find_thread_hops,
        _describe_thread_hops,
        _remedy_thread_hops,
    ),
    Rule(
        BODY_PARTS,
        find_body_parts,
        _describe_body_parts,
        "yield parts of 64 KiB, or return the body as a whole",
    ),
    Rule(
        NEW_CONNECTIONS,
        find_new_connections,
        _describe_new_connections,
        "use one session, client or pool of connections for all requests of a process: it keeps "
        "connections and uses them again",
        is_symptom_of=frozenset({SLOTS_KEPT}),
    ),
    Rule(
        MANY_CALLS,
        find_many_calls,
        _describe_many_calls,
        _remedy_many_calls,
    ),
    Rule(
        RETRIES,
        find_retries,
        _describe_retries,
        "find why these calls fail, and limit the number of tries and their pauses",
        is_symptom_of=execution.STOPPED,
    ),
    Rule(
        NEW_OBJECTS,
        find_new_objects,
        _describe_new_objects,
        _remedy_of_new_objects,
        explains=_new_objects_explains,
        is_symptom_of=execution.STOPPED,
    ),
    Rule(
        NEW_PROCESSES,
        find_new_processes,
        _describe_new_processes,
        "do it in the server by a library, or keep a process that does it for many requests, such "
        "as a worker of a pool",
        is_symptom_of=execution.STOPPED,
    ),
)
