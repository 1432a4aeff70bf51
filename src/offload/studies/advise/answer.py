"""The answer in words and as JSON: what to deploy, what it carries, and what that is based on."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from offload import resource_limits
from offload.causes import who
from offload.causes.hangs import FORK_WITH_THREADS
from offload.documents import Chart, Command, Curve, Document, Paragraph, Spot
from offload.engine.application import HotLine
from offload.engine.intervals import Interval
from offload.errors import Flag, RunError, escaped
from offload.registry import catalog
from offload.studies.advise import application
from offload.studies.advise.application import Application
from offload.studies.advise.choice import RESERVE, Choice
from offload.studies.advise.evidence import (
    CERTAIN,
    LEAST_FAILED,
    LOOPS,
    MOST_FAILED,
    POOL,
    SAME_P99,
    THREADS,
    Evidence,
    KeepAlive,
    Latency,
    Question,
    Setup,
)
from offload.studies.advise.function import Function
from offload.studies.advise.handlers import Handler
from offload.studies.advise.overload import Overload, sentences
from offload.studies.advise.prior import MOST_USERS, Prior
from offload.studies.advise.result import case_of
from offload.suites import Case
from offload.units import counted, cpus, number, percent, seconds

MOST_ROWS = 5
LARGE_CALL_MIB = 4.0
UNEVEN = 1.5  # times its share of requests, from which a process has too many
MEMORY_GAIN = 0.9  # a setting is advised if it reduces the memory below this share
BALANCE_REQUESTS = "let connections end soon, or balance requests over a port for each process"
GARBAGE = 1.1  # factor of the memory from which the effect of a garbage collection is shown
CLIENT_SHARE = 0.1  # of the CPU, above which the load tool limits what was measured
LEAST_ROUNDS = 3  # that show an interval: Student's t of two rounds is 12.7, of three 4.3
REACHED = 0.85  # of what the users allow, from which the users are the limit
P99 = 0.99
P_NAMES = {P99: "p99", 0.95: "p95", 0.9: "p90", 0.5: "p50"}


@dataclass(frozen=True)
class Answer:
    """A choice and its question, for a function or an application (`subject`).

    `case` has the work, `missing` are servers that are not installed. `disturbed` is the reason why
    there is no verdict. Of the chosen set-up, `start_s` is the time of its start, `keep_alive`
    how it serves clients that reuse their connections, and `preloads` its memory after the load by
    its setting preload, in MiB. `kept` are the lines that allocate what a leak or a load
    keeps. `handler` is the program that was requested by code=.
    """

    prior: Prior
    case: Case
    subject: Function | Application
    choice: Choice
    missing: tuple[str, ...] = ()
    disturbed: Flag | None = None
    is_interrupted: bool = False
    overloads: tuple[Overload, ...] = ()
    start_s: float | None = None
    keep_alive: KeepAlive | None = None
    preloads: Mapping[str, float] = field(default_factory=dict)
    kept: tuple[HotLine, ...] = ()
    handler: Handler | None = None

    @property
    def question(self) -> Question:
        """What is required."""
        return self.prior.question

    @property
    def best(self) -> Evidence:
        """The chosen set-up."""
        return self.choice.best

    @property
    def title(self) -> str:
        """The name of the function or the application, with its request."""
        return self.subject.title(self.case)

    @property
    def serve(self) -> str:
        """What serves the chosen set-up, in one word: run_server:3,TASK,processes=2."""
        return case_of(self.best.setup, self.case, self.case.users).command

    @property
    def deployment(self) -> str | None:
        """The command of the server's own program for an application; None if there is none."""
        subject = self.subject
        if self.disturbed is not None or not isinstance(subject, Application):
            return None
        return application.deployment(
            self.case, self.best.setup, subject.name, self.preload is not None
        )

    @property
    def preload(self) -> str | None:
        """The setting preload= that saves memory after the load; None: it saves little or harms."""
        if self.preload_harms:
            return None
        least, found = self.best.collected_mib, None
        for name in ("yes", "freeze"):
            mib = self.preloads.get(name)
            if mib is not None and least is not None and mib < MEMORY_GAIN * least:
                least, found = mib, name
        return found

    @property
    def preload_harms(self) -> bool:
        """Whether workers lack threads that the application's import starts."""
        subject = self.subject
        causes = subject.preload_causes if isinstance(subject, Application) else ()
        return any(cause.kind == FORK_WITH_THREADS for cause in causes)

    @property
    def serve_command(self) -> str:
        """The command for a shell that serves the chosen set-up."""
        words = case_of(self.best.setup, self.case, self.case.users).words
        return self.deployment or shlex.join(["offload", *words])

    @property
    def strategy(self) -> str:
        """The strategy of the chosen server: loop, prefork, threads, processes or pipes."""
        return catalog.find_server(self.best.setup.server).strategy or self.best.setup.server

    @property
    def required(self) -> Latency | None:
        """The load at the required rate; None if none is required or measured."""
        rate = self.question.rate
        return next((each for each in self.best.latencies if each.rate == rate), None)

    @property
    def meets_rate(self) -> bool | None:
        """Whether the required rate was served as required; None if that is unknown."""
        found = self.required
        if found is None:
            return None
        limit_s = self.question.p99_s
        is_kept = found.failed <= self.best.allowed_failures
        return is_kept and (limit_s is None or found.high <= limit_s)

    @property
    def unmet(self) -> RunError | None:
        """The error if the chosen set-up does not meet what is required; None if it does."""
        question, missed = self.question, self.choice.missed
        if self.disturbed is not None or self.is_interrupted:
            return None
        if missed == "rate":
            machines = counted(self.machines, "machine")
            what = f"{question.rate:,.10g}/s needs {machines} of this size"
            return RunError(what, "deploy so many, or lower rate=")
        if missed is not None:
            change = "reduce what a call needs" if missed == "memory" else "make a call faster"
            return RunError(
                f"no measured set-up meets {missed}=", f"{change}, or increase {missed}="
            )
        if self.meets_rate is False:
            what = f"the required {question.rate:,.10g}/s was not kept"
            return RunError(what, "lower rate=, or increase p99=")
        return None

    @property
    def machines(self) -> int:
        """How many machines of this size carry the required rate; 1 without one."""
        rate, capacity = self.question.rate, self.best.capacity
        return 1 if not rate or not capacity else max(1, math.ceil(rate / (RESERVE * capacity)))


def size_in_words(setup: Setup) -> str:
    """Return a set-up in words: 2 processes of 32 threads each (threads 2x32)."""
    count = counted(setup.processes, "process")
    if setup.kind == THREADS:
        each = " each" if setup.processes > 1 else ""
        return f"{count} of {counted(setup.workers or 1, 'thread')}{each} ({setup.name})"
    if setup.kind == POOL:
        return f"one process with a pool of {counted(setup.workers or 1, 'process')} ({setup.name})"
    return (
        f"{count} with one event loop each ({setup.name})"
        if setup.processes > 1
        else f"one event loop ({setup.name})"
    )


def document(answer: Answer) -> Document:
    """Return the answer for any renderer: at most 30 lines of text without a handler's code."""
    if answer.disturbed is not None:
        headline = f"No verdict for {answer.title}: {answer.disturbed.message}."
        told = [Paragraph("Next", (f"{who.capitalized(answer.disturbed.remedy)}.",))]
        if isinstance(answer.subject, Application) and (seen := [*answer.subject.seen()]):
            told.insert(0, Paragraph("Seen, but not judged", tuple(seen)))
        return Document(headline, paragraphs=tuple(told), has_verdict=False, shows_cases=False)
    deploy = f"Deploy {size_in_words(answer.best.setup)} for {answer.title}."
    rows = answer.choice.rows[:MOST_ROWS]
    rate = max((each.p99.rate for each in rows if each.p99), default=None)
    response = "Response time" if rate is None else f"p99 at {number(rate)}/s"
    return Document(
        " ".join([deploy, *_carries(answer), *_first(answer)]),
        ("Set-up", "Capacity (95 % interval)", response, "Memory", "CPU a request"),
        tuple(tuple(_cells(each, rate)) for each in rows),
        tuple(paragraphs(answer)),
        tuple(_charts(answer)),
        Command("Serve it", answer.serve_command),
        shows_cases=False,
        code=None if answer.handler is None else answer.handler.text,
    )


def _charts(answer: Answer) -> Iterator[Chart]:
    """Yield capacity against memory, and response times against load of the best two."""
    known = [each for each in answer.choice.rows if each.capacity and each.memory_mib]
    if len(known) > 1:
        spots = [_spot(each, each.capacity or 0.0) for each in known]
        about = (
            f"The lines are 95 % intervals, of set-ups with {LEAST_ROUNDS} rounds or more. "
            "Up and to the left is better."
        )
        title = "Capacity against memory"
        yield Chart(title, "memory in MiB", "requests/s", tuple(spots), about=about)
    loaded = [each for each in answer.choice.rows if len(each.latencies) > 1][:2]
    if loaded:
        yield _response_times(loaded)


def _spot(found: Evidence, capacity: float) -> Spot:
    ends = found.interval if len(found.rates) >= LEAST_ROUNDS else None
    low, high = (None, None) if ends is None else ends[1:]
    words = f"{number(capacity)}/s"
    return Spot(found.memory_mib or 0.0, capacity, words, low, high, found.setup.name)


def _response_times(loaded: Sequence[Evidence]) -> Chart:
    spots, lines = [], []
    for each in loaded:
        places = tuple((found.rate, 1000 * found.value) for found in each.latencies)
        lines.append(Curve(each.setup.name, places))
        spots += [
            Spot(
                found.rate,
                1000 * found.value,
                f"{each.setup.name} at {number(found.rate)}/s: {_percentile(found)}",
            )
            for found in each.latencies
        ]
    about = "The 99th percentile, or the next lower one that the responses show."
    title = "Response times against load"
    return Chart(title, "requests/s sent", "ms", tuple(spots), tuple(lines), about)


def _percentile(found: Latency) -> str:
    return f"{P_NAMES[found.quantile]} {seconds(found.value)}"


def _cells(found: Evidence, rate: float | None) -> list[str]:
    interval = found.interval
    capacity = "-"
    if interval is not None:
        rounds = len(found.rates)
        ends = f"{number(interval[1])} to {number(interval[2])}"
        shown = ends if rounds >= LEAST_ROUNDS else counted(rounds, "round")
        capacity = f"{number(interval[0])}/s ({shown})"
    latency = next((each for each in found.latencies if each.rate == rate), None)
    response = "-"
    if latency is not None:
        name = "" if latency.quantile == 0.99 else f"{P_NAMES[latency.quantile]} "
        response = f"{name}{seconds(latency.value)}"
    memory = "-" if found.memory_mib is None else f"{found.memory_mib:.0f} MiB"
    cpu = "-" if found.cpu_ms is None else _cpu(found.cpu_ms)
    return [found.setup.name, capacity, response, memory, cpu]


def _cpu(cpu_ms: float) -> str:
    return seconds(float(f"{cpu_ms / 1000:.2g}"))


def _carries(answer: Answer) -> Iterator[str]:
    """Yield what the chosen set-up carries."""
    best, question = answer.best, answer.question
    capacity = best.capacity or 0.0
    users = f" with {best.users} users" if question.users is not None else ""
    at_least = "at least" if best.setup.kind == LOOPS and best.users == MOST_USERS else "up to"
    words = [f"{at_least} {number(capacity)}/s{users}"]
    for found in _reported_latencies(best, question):
        words.append(f"at {number(found.rate)}/s {_latency(found)}")
    if answer.keep_alive is not None and _is_slower_on_kept_connections(answer):
        words[-1] += f", and {seconds(answer.keep_alive.latency.value)} on kept connections"
    if best.memory_mib is not None:
        words.append(_memory(best, answer.prior))
    if best.cpu_ms is not None:
        words.append(f"{_cpu(best.cpu_ms)} of CPU a request")
    yield f"It carries {'; '.join(words)}."
    if question.users is not None and capacity:
        response_s = seconds(question.users / capacity)
        yield f"{question.users} users who wait for each response see {response_s} on average."
    if question.rate is not None:
        yield from _on_required_rate(answer, question.rate)
    limit_s = question.p99_s
    if limit_s is not None and answer.choice.missed not in ("p99", "rate") and _lacks_p99(answer):
        yield f"There are too few responses for a p99: that of {seconds(limit_s)} is not shown."
    if answer.choice.missed in ("p99", "memory", "connections"):
        yield f"No measured set-up meets the required {answer.choice.missed}: this one is the best."


def _first(answer: Answer) -> Iterator[str]:
    """Yield that a cause is to be fixed before, if the size follows from it."""
    subject = answer.subject
    if isinstance(subject, Application) and subject.fixable:
        yield "But first fix the cause (see Why), then repeat: fewer processes will do."
    elif not isinstance(subject, Application) and subject.blocks_a_coroutine:
        blocks_s = seconds(subject.probe.on_loop_s)
        yield f"But first move what blocks its event loop, for {blocks_s} a call, to a thread."


def _reported_latencies(best: Evidence, question: Question) -> list[Latency]:
    """Return the response times at the highest rate.

    If they miss a required p99, those at the highest rate that keeps it come first.
    """
    if not best.latencies:
        return []
    limit_s, last = question.p99_s, best.latencies[-1]
    if limit_s is None or question.rate is not None or last.value <= limit_s:
        return [last]
    return [*[each for each in best.latencies if each.value <= limit_s][-1:], last]


def _lacks_p99(answer: Answer) -> bool:
    """Whether only a lower percentile of the chosen set-up was measured."""
    known = answer.best.p99 if answer.question.rate is None else answer.required
    return known is not None and known.quantile < P99


def _latency(found: Latency) -> str:
    """Return a percentile in words, with its range over the loads if they differ much."""
    varies = found.high > SAME_P99 * found.low
    ends = f" ({seconds(found.low)} to {seconds(found.high)})" if varies else ""
    return f"{P_NAMES[found.quantile]} is {seconds(found.value)}{ends}"


def _memory(found: Evidence, prior: Prior) -> str:
    """Return the memory of a set-up in words: that of calls in progress apart, if it is large."""
    call_mib, whole = _call_mib(found, prior), f"{found.memory_mib or 0.0:.0f} MiB"
    if call_mib <= LARGE_CALL_MIB:
        return whole
    idle_mib = found.collected_mib
    # Forked processes may have copied pages since then.
    is_known = idle_mib is not None and idle_mib <= (found.memory_mib or 0.0)
    idle = f"{idle_mib:.0f} MiB + " if is_known else ""
    return f"{whole} ({idle}{call_mib:.0f} MiB per call in progress)"


def _call_mib(found: Evidence, prior: Prior) -> float:
    """Return the memory of a call in progress: of the probe, or of all slots under load."""
    peak_mib, idle_mib, slots = found.memory_mib, found.collected_mib, found.setup.slots
    if prior.costs.call_mib or None in (peak_mib, idle_mib, slots):
        return prior.costs.call_mib
    return max(0.0, (peak_mib or 0.0) - (idle_mib or 0.0)) / (slots or 1)


def _on_required_rate(answer: Answer, rate: float) -> Iterator[str]:
    """Yield whether the chosen set-up meets the required rate."""
    if answer.choice.missed == "rate":
        needs = f"{rate:,.10g}/s needs {counted(answer.machines, 'machine')} of this size"
        if answer.prior.limit(answer.best.setup, answer.best) == "shared":
            needs = f"{rate:,.10g}/s needs more of what the processes wait for, not more machines"
        yield f"{needs}: no set-up carries it with a reserve of {percent(1 - RESERVE)}."
        return
    found = answer.required
    if found is None:
        yield f"{number(rate)}/s was not loaded."
        return
    name, verdict = P_NAMES[found.quantile], "kept" if answer.meets_rate else "not kept"
    failed = f", {percent(found.failed, 1)} failed" if found.failed else ""
    yield f"{number(rate)}/s for 20 s: {verdict}, {name} {seconds(found.value)}{failed}."


def paragraphs(answer: Answer) -> list[Paragraph]:
    """Return the titled paragraphs below the table."""
    return [
        Paragraph("Why", tuple(_why(answer))),
        Paragraph("Certainty", tuple(_certainty(answer))),
        *(
            [Paragraph("Overload", beyond)]
            if (beyond := tuple(sentences(answer.overloads)))
            else []
        ),
        Paragraph("Note", tuple(_notes(answer))),
    ]


def _why(answer: Answer) -> Iterator[str]:
    yield from _leak(answer)
    yield from _failures(answer)
    yield from answer.subject.why()
    yield limit_in_words(answer.best, answer.prior)


def limit_in_words(found: Evidence, prior: Prior) -> str:
    """Return what limits a set-up, in words."""
    setup, question = found.setup, prior.question
    allowed = prior.bounds(setup).get("users")  # calls/s
    are_users = allowed is not None and (found.capacity or 0.0) >= REACHED * allowed
    name = "users" if are_users else prior.limit(setup, found)
    quota = resource_limits.own_cpu_quota()
    more = "more cores carry" if quota is None else f"a larger quota than {cpus(quota)} carries"
    shared = "what its calls share: the GIL, a lock or a pool"
    limits = {
        "cpu": f"the CPU: {more} more",
        "serial": "the event loop" if setup.kind == LOOPS else shared,
        "slots": f"its {counted(setup.slots or 0, 'slot')}: each holds a call while it waits",
        "users": f"the {question.users} users: each waits for one response at a time",
        "shared": "outside: several processes wait for each other, such as for a lock of a file, a "
        "row of a database or a service; hold it for less of a call",
    }
    if setup.kind == POOL and name == "serial":
        limits["serial"] = "the one process in front of the pool"
    return f"The limit of {setup.name} is {limits[name]}."


def _certainty(answer: Answer) -> Iterator[str]:
    best, choice = answer.best, answer.choice
    if answer.is_interrupted:
        yield "Interrupted: the answer is from the figures until then."
    if choice.tie is not None and min(len(best.rates), len(choice.tie.rates)) > 1:
        both = f"{best.setup.name} and {choice.tie.setup.name}"
        yield f"A tie: {both} do not certainly differ in {_compared(best, choice.tie)}."
    faster = [each for each in choice.rows[1:] if each.is_certainly_faster(best)]
    for each in faster[:2]:
        ratio, memory = each.ratio(best), _memory_ratio(each, best)
        if ratio is not None:
            yield f"{each.setup.name} carries {_times(ratio)} as much, with {memory} the memory."
    if not faster:
        yield f"No measured set-up carries more than {CERTAIN:g} times as much with certainty."
    if dominated := [name for name, why in choice.left_out.items() if why == "dominated"]:
        yield f"Worse than another one, and nowhere better: {', '.join(dominated)}."
    for why in dict.fromkeys(choice.left_out.values()):
        if why != "dominated":
            names = [name for name, each in choice.left_out.items() if each == why]
            yield f"{who.capitalized(why)}: {', '.join(names)}."


def _compared(one: Evidence, other: Evidence) -> str:
    """Return what was measured of both, in words."""
    known = {
        "memory": one.memory_mib is not None and other.memory_mib is not None,
        "response times": one.p99 is not None and other.p99 is not None,
    }
    names = ["capacity", *(name for name, is_known in known.items() if is_known)]
    return " and ".join([", ".join(names[:-1]), names[-1]]) if names[1:] else names[0]


def _times(ratio: Interval) -> str:
    return f"{ratio[0]:.2f}x ({ratio[1]:.2f} to {ratio[2]:.2f})"


def _memory_ratio(one: Evidence, other: Evidence) -> str:
    if not one.memory_mib or not other.memory_mib:
        return "unknown times"
    return f"{one.memory_mib / other.memory_mib:.1f}x"


def _notes(answer: Answer) -> Iterator[str]:
    """Yield what the reader must know: reserves, connections, health checks, assumptions."""
    best, prior, costs = answer.best, answer.prior, answer.prior.costs
    if best.setup.processes == 1 and best.setup.kind != POOL:
        yield "One process has no reserve: a crash stops all."
    yield from answer.subject.notes(best)
    yield from _on_keep_alive(answer)
    yield from _on_connections(answer)
    yield from _idle_memory(answer)
    yield from _preloads(answer)
    share = best.client_share
    is_cpu = prior.limit(best.setup, best) == "cpu"
    if share is not None and share > CLIENT_SHARE and best.cpu_ms and is_cpu:
        # Other programs, such as a service that the function calls, keep their part of the CPU.
        alone = min(1000 * costs.cores / best.cpu_ms, (best.capacity or 0.0) / (1 - share))
        elsewhere = f"with the tool on another machine, up to {number(alone)}/s"
        yield f"The load tool used {percent(share)} of the CPU time: {elsewhere}."
    if answer.missing:
        yield f"Not installed, so not measured: {', '.join(answer.missing)}."
    yield "This holds for this machine: repeat it in the container where it will run."


def _on_connections(answer: Answer) -> Iterator[str]:
    """Yield what keeps the calls in progress within a number of connections, if one is required."""
    setup, allowed = answer.best.setup, answer.question.connections
    if allowed is None:
        return
    if answer.prior.costs.is_awaited and setup.kind == LOOPS:
        most = max(1, allowed // setup.processes)
        limit = f"limit the calls in progress, such as by asyncio.Semaphore({most})"
        yield f"An event loop runs any number of calls at once: {limit}."
    elif setup.slots is not None and setup.slots <= allowed:
        calls = counted(setup.slots, "call")
        yield f"At most {calls} run at once, as connections={allowed} requires."


def _idle_memory(answer: Answer) -> Iterator[str]:
    """Yield what the processes keep after the load, and what a full collection changes."""
    best = answer.best
    after_mib, collected_mib = best.after_mib, best.collected_mib
    if after_mib is None or collected_mib is None:
        return
    change = ""
    if max(after_mib, collected_mib) > GARBAGE * min(after_mib, collected_mib):
        change = f", {collected_mib:.0f} MiB after a garbage collection"
    # Ours fork; of other servers, those that can preload do.
    forks = answer.deployment is None or catalog.find_server(best.setup.server).can_preload
    if collected_mib > GARBAGE * after_mib and forks:
        change += " (it writes to pages that forked processes share, unless frozen by gc.freeze())"
    before = f", {best.started_mib:.0f} MiB before it" if best.is_grown else ""
    keeps = f"keeps {after_mib:.0f} MiB"
    peak_mib = best.memory_mib or 0.0  # of the rounds, without these loads
    if peak_mib <= after_mib <= GARBAGE * peak_mib:
        keeps = f"keeps all of that ({after_mib:.0f} MiB)"
    yield f"After the load it {keeps}{before}{change}."
    if not answer.prior.costs.leak_mib:
        yield from _kept(answer)


def _preloads(answer: Answer) -> Iterator[str]:
    """Yield what an import before the fork, and gc.freeze() then, change after the load."""
    found = answer.preloads
    plain_mib = answer.best.collected_mib
    if not found or plain_mib is None:
        return
    words = [
        f"{found[name]:.0f} MiB with {how}"
        for name, how in (
            ("yes", "an import before the fork (preload=yes)"),
            ("freeze", "gc.freeze() before the fork (preload=freeze)"),
        )
        if name in found
    ]
    how = f"preload={answer.preload}" if answer.preload else "neither saves much"
    if answer.preload_harms:
        how = "but do not preload it as it is"
    elif answer.preload == "freeze":
        freeze = "call gc.freeze() in pre_fork of gunicorn.conf.py"
        how += f"; the command only preloads: {freeze}" if answer.deployment else f", or {freeze}"
    elif not answer.preload and len(words) == 1:
        how = "it saves little"
    yield f"After load and collection {plain_mib:.0f} MiB, {' and '.join(words)}: {how}."


def _is_slower_on_kept_connections(answer: Answer) -> bool:
    reused, new = answer.keep_alive, answer.best.p99
    if reused is None or new is None or reused.latency.quantile != new.quantile:
        return False
    return reused.latency.value > SAME_P99 * new.value


def _on_keep_alive(answer: Answer) -> Iterator[str]:
    """Yield whether the response times hold if clients reuse their connections."""
    reused, new = answer.keep_alive, answer.best.p99
    if reused is None or new is None or reused.latency.quantile != new.quantile:
        return
    found, requests = reused.latency, reused.requests
    fails = found.failed > max(MOST_FAILED, answer.best.allowed_failures)
    holds = not _is_slower_on_kept_connections(answer) and not fails
    failed = f", {percent(found.failed, 1)} fail" if fails else ""
    words = f"On kept connections {_percentile(found)}{failed}"
    if holds:
        is_less = found.value * SAME_P99 < new.value
        yield f"{words}: {'less than' if is_less else 'as'} on new ones."
        return
    total = sum(requests)
    if len(requests) > 1 and total and requests[0] > UNEVEN * total / len(requests):
        share = percent(requests[0] / total)
        has_setting = "reuse_port" in catalog.find_server(answer.best.setup.server).settings
        fix = "use reuse_port=yes" if has_setting else BALANCE_REQUESTS
        nothing = ", one serves nothing" if not requests[-1] else ""
        serves = f"one process serves {share}{nothing}"
        yield f"{words}, {seconds(new.value)} on new ones: {serves}; {fix}."
        return
    yield f"{words}, {seconds(new.value)} on new ones."


def _leak(answer: Answer) -> Iterator[str]:
    if leak_mib := answer.prior.costs.leak_mib:
        until = _calls_until(answer.prior, answer.best.setup)
        yield f"It leaks {leak_mib:.3g} MiB a call: {until}."
        yield from _kept(answer)


def _failures(answer: Answer) -> Iterator[str]:
    """Yield the share of calls of a function that fail, and the last error if it is known."""
    if answer.best.failed >= LEAST_FAILED and isinstance(answer.subject, Function):
        error = answer.subject.probe.error
        known = "" if error is None else f": {escaped(error)}"
        yield f"{percent(answer.best.failed, 1)} of the requests fail{known}."


def _kept(answer: Answer) -> Iterator[str]:
    if answer.kept:
        lines = [f"{who.place(line)}: {percent(line.share)}" for line in answer.kept]
        yield f"The memory that stays is allocated in {', '.join(lines)}."


def _calls_until(prior: Prior, setup: Setup) -> str:
    """Return after how many calls a leak reaches the memory limit, and what to do."""
    restart = "fix that, or restart its processes before"
    left_mib = (prior.limit_mib or 0.0) - prior.memory_mib(setup)
    if left_mib <= 0:
        return restart
    calls = number(left_mib / (prior.costs.leak_mib or 1.0))
    return f"it reaches {prior.limit_mib:.0f} MiB after {calls} calls; {restart}"


def as_dict(answer: Answer) -> dict[str, Any]:
    """Return the values of the JSON object; rates in requests/s, times in s."""
    choice = answer.choice
    sure = "disturbed" if answer.disturbed else "tie" if choice.tie else "sure"
    return {
        "task": answer.case.task,
        **_row(answer.best, answer.prior),
        "tie": [] if choice.tie is None else [choice.tie.setup.name],
        "alternatives": [_row(each, answer.prior) for each in choice.rows[1:]],
        "left_out": dict(choice.left_out),
        "not_measured": [*answer.missing],
        "missed": choice.missed,
        "machines": answer.machines,
        "is_kept": answer.meets_rate,
        "sure": sure,
        "why": [*_why(answer)],
        "flags": [*_leak(answer), *_notes(answer)],
        **answer.subject.values(),
        "is_interrupted": answer.is_interrupted,
        "kept_connections": answer.keep_alive and asdict(answer.keep_alive),
        "overload": [asdict(each) for each in answer.overloads],
        "preload": answer.preload,
        "preload_memory_mib": dict(answer.preloads),
        "leak_lines": [asdict(line) for line in answer.kept],
        "rolling_restart": _rolling_restart(answer),
        "next": f"Serve it: {answer.serve_command}",
        "serve": answer.serve,
        "deployment": answer.deployment,
        "handler": answer.handler and answer.handler.values,
    }


def _rolling_restart(answer: Answer) -> dict[str, float | None]:
    """Return the time until a second server is ready, and the memory while both run."""
    peak_mib, idle_mib = answer.best.memory_mib, answer.best.collected_mib
    both_mib = None if peak_mib is None or idle_mib is None else peak_mib + idle_mib
    return {"start_s": answer.start_s, "memory_mib": both_mib}


def _row(found: Evidence, prior: Prior) -> dict[str, Any]:
    interval: Sequence[float | None] = found.interval or (None, None, None)
    setup, p99 = found.setup, found.p99
    return {
        "server": setup.server,
        "strategy": catalog.find_server(setup.server).strategy or setup.server,
        "processes": setup.processes,
        "threads": setup.workers if setup.kind == THREADS else None,
        "workers": setup.workers if setup.workers is not None else setup.processes,
        "capacity": interval[0],
        "rate": interval[0],
        "rate_low": interval[1],
        "rate_high": interval[2],
        "p99_s": None if p99 is None or p99.quantile != 0.99 else p99.value,
        "p95_s": [vars(each) for each in found.latencies],
        "memory_mib": found.memory_mib,
        "memory_after_load_mib": found.after_mib,
        "memory_collected_mib": found.collected_mib,
        "memory_per_call_mib": _call_mib(found, prior),
        "predicted_rate": prior.capacity(setup),
        "predicted_memory_mib": prior.memory_mib(setup),
        "limit": prior.limit(setup, found),
        "cpu_ms": found.cpu_ms,
        "client_share": found.client_share,
        "users": found.users,
    }
