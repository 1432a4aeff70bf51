"""A trial: the steps that windows and long runs have in common, and the long run of one server."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from offload import loads
from offload.bench.trial import builder, flags, load_phase, server_report, workload
from offload.bench.trial.load_phase import LoadOutcome, SingleRequest
from offload.bench.trial.workload import (
    FIRST_REQUESTS,
    BadStatus,
    FailedRequest,
    FirstResponses,
    send_first_requests,
)
from offload.engine import server
from offload.engine.host import environment
from offload.engine.record import Baseline, CaseFacts, GilFacts, Record, ServerFacts, Share, Trial
from offload.errors import UserError
from offload.flags import Flag
from offload.registry import catalog
from offload.suites import Case, Request
from offload.upstream import Upstream

AGAIN = 2  # first requests in later rounds of a block; the first round has TIMES
FACTOR = 2.0  # a guess: the first request may take twice as long, because it prepares the task


class Report(Protocol):
    """Receive the name of a phase, its expected time in s, and the only case that is loaded."""

    def __call__(self, name: str, expected: float, loaded: int | None = None, /) -> object: ...


@dataclass
class Phases:
    """The duration of each phase in s; `report` is called at its start, with the expected time."""

    report: Report
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def of(self, name: str, expected: float, loaded: int | None = None) -> Iterator[None]:
        """Time one phase, in which only the case at `loaded` in the plan is loaded."""
        self.report(name, expected, loaded)
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - start, 3)


def long_run(
    case: Case, driver: str, trial: Trial, upstream: Upstream | None, report: Report
) -> Record:
    """Load a fresh server of a case once, with the published tool and for the published time.

    If it fails, the record has a `problem`.
    """
    phases = Phases(report)
    case_facts = builder.case_facts(case, upstream)
    try:
        record = _measure(case, case_facts, driver, trial, upstream, phases)
    except UserError as error:
        record = builder.unavailable(trial, case_facts, case.settings, error)
    return replace(record, trial=replace(trial, phases=phases.seconds))


def _measure(
    case: Case,
    case_facts: CaseFacts,
    driver: str,
    trial: Trial,
    upstream: Upstream | None,
    phases: Phases,
) -> Record:
    with phases.of("start", 1.0):
        running = server.start(case, {} if upstream is None else upstream.environment())
    try:
        facts = builder.server_facts(running.facts)
        sent = case.request or Request()
        url = workload.url(running.url, sent)
        with phases.of("baseline", 1.0):
            before, baseline_flags = measure_baseline(trial, case_facts, url, sent, running.facts)
        cycle_s = workload.cycle_s(case_facts, facts, before)
        with phases.of("warm", cycle_s):
            warmed = loads.run(workload.warm_up(url, case_facts, facts, sent), "builtin").result
        if warmed.problem:
            baseline_flags += (Flag("warm-up", warmed.problem),)
        load = workload.long(url, case_facts, before, sent)
        with phases.of("load", load.seconds or cycle_s * (load.requests or 0) / load.users):
            loaded = load_phase.run(load, driver, running.facts, upstream)
    finally:
        with phases.of("stop", 1.0):
            server.stop(running, server.SHORT_DRAIN)
    facts, left = builder.with_ending(builder.with_gil(facts, loaded.gil_state), running)
    record = build_record(trial, case_facts, facts, before, SingleRequest(), loaded, baseline_flags)
    return replace(record, flags=record.flags + left)


def measure_baseline(
    trial: Trial, case: CaseFacts, url: str, request: Request, server_facts: Mapping[str, object]
) -> tuple[Baseline, tuple[Flag, ...]]:
    """Measure the first requests to a new server, whose ready line is `server_facts`.

    Raise StartError if one of them fails, and TooSlowError if the users of the case would wait for
    longer than the timeout of a request.
    """
    is_again = (trial.round or 0) > 1
    longest_s = math.inf if is_again else workload.longest_alone_s(case, server_facts)
    try:
        first = send_first_requests(
            url, AGAIN if is_again else FIRST_REQUESTS, request, FACTOR * longest_s
        )
    except BadStatus as error:
        if server_report.serves_application(server_facts):
            raise _application_error(error, request, server_facts) from None
        raise
    if not is_again:
        workload.check_timeout(case, server_facts, first.alone_s)
    needs_kept = case.keep_alive and not is_again
    kept_s = workload.keep_alive_s(url, first.alone_s, request) if needs_kept else None
    baseline_flags: tuple[Flag, ...] = ()
    if not first.stable and catalog.has_constant_bodies(case.task, case.path):
        remedy = "if this is intended, set STABLE = False in the task's file"
        baseline_flags = (Flag("bodies", "responses change", remedy),)
    found = Baseline(
        alone_s=round(first.alone_s, 6),
        kept_s=None if kept_s is None else round(kept_s, 6),
        body_sha256=first.body_sha256,
        body_bytes=len(first.body),
        is_stable=is_stable(first, case),
        content=builder.comparable_content(trial.suite, first.body),
    )
    return found, baseline_flags


def _application_error(
    error: BadStatus, request: Request, server_facts: Mapping[str, object]
) -> FailedRequest:
    """Return the error for a request to a user's application whose status is not a success."""
    if error.status == 404:
        missing = f"the application has no {request.method} {loads.mask_query(request.path)}"
        return FailedRequest(f"{missing} ({error.what})", "name one of its paths by request=/path")
    raised = server_report.last_error(server_facts)
    why = f" ({request.message.mask(raised, request.path)})" if raised else ""
    fix = "fix it, or send another request by request=, method=, body= and header="
    return FailedRequest(f"{error.what}{why}", fix)


def is_stable(first: FirstResponses, case: Case | CaseFacts) -> bool:
    """Whether every response must have the same body as the first one."""
    return first.stable and catalog.has_checked_bodies(case.task, case.path)


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
            alone_cpu_s=alone.task_cpu_s,
            alone_blocked_s=alone.blocked_s,
        ),
        gil=_gil(loaded.gil, alone),
        application=loaded.application,
        flags=baseline_flags + loaded.flags,
        problem=loaded.problem,
        environment=environment(),
    )
    return replace(record, flags=record.flags + flags.trial_flags(record))


def _gil(under_load: GilFacts, alone: SingleRequest) -> GilFacts:
    hold = Share(alone.hold.share, alone.hold.low, alone.hold.high)
    return replace(under_load, hold=hold, why=under_load.why or alone.hold.why)
