"""A visit: one fresh server of a case, loaded once, and the record of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from urllib.parse import urljoin

from offload import loads
from offload.bench.records.record import VISIT, Record
from offload.bench.target import server
from offload.bench.trial import builder, response_content, single_request, stall, workload
from offload.bench.trial.load_phase import measure_load
from offload.bench.trial.warmup import TIMES, prime
from offload.errors import Mendable
from offload.registry import catalog
from offload.suites import Case
from offload.upstream import Upstream

AGAIN = 2  # first requests of a visit, whose case was asked more often in its long run
Tell = Callable[[str, float], object]


@dataclass
class Phases:
    """The seconds that each phase took; `tell` hears of each as it begins, with a guess."""

    tell: Tell
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def of(self, name: str, expected: float) -> Iterator[None]:
        """Time one phase."""
        self.tell(name, expected)
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - start, 3)


def visit(
    case: Case,
    driver: str,
    record: Record,
    upstream: Upstream | None,
    tell: Tell,
    gil: bool = False,
) -> Record:
    """Start, prime, warm, measure and stop; what goes wrong is in the record's `problem`.

    `record` is what `draft.new` gave, with what the run knows of it. With `gil` the record has a
    task's GIL-hold fraction and clocks alone too, for which some 0.6 s of one user come first.
    """
    phases = Phases(tell)
    try:
        record = _visit(case, driver, record, upstream, phases, gil)
    except Mendable as error:
        record = builder.not_available(record, error)
    return replace(record, phases=phases.seconds)


def _visit(
    case: Case,
    driver: str,
    record: Record,
    upstream: Upstream | None,
    phases: Phases,
    gil: bool,
) -> Record:
    environment = {} if upstream is None else upstream.environment()
    if gil:
        environment = {**environment, "SERVER_QUEUE_CLOCK": "1"}
    with phases.of("start", 1.0):
        running = server.start(case, environment)
    try:
        record = builder.with_facts(record, running.facts)
        with phases.of("prime", 1.0):
            record = prepared(record, running)
        if gil:
            with phases.of("alone", single_request.SECONDS):
                record = single_request.added(record, running.facts)
        record = _loaded(record, running, driver, upstream, phases)
    finally:
        with phases.of("stop", 1.0):
            server.stop(running, server.ABANDONED)
    return builder.ended(record, running)


def _loaded(
    record: Record,
    running: server.Server,
    driver: str,
    upstream: Upstream | None,
    phases: Phases,
) -> Record:
    if record.kind == VISIT:
        load = workload.window(record, running.facts)
        expected = load.warm + 3 * workload.cycle_s(record)
    else:
        load = workload.long(record)
        with phases.of("warm", workload.cycle_s(record)):
            warmed = loads.run(workload.warm_up(record), "builtin").measured
        expected = load.seconds or workload.cycle_s(record) * (load.requests or 0) / load.users
        if warmed.problem:
            record = replace(record, flags=(*record.flags, f"warm-up: {warmed.problem}"))
    with phases.of("load", expected):
        return measure_load(record, load, driver, running.facts, upstream)


def prepared(record: Record, running: server.Server) -> Record:
    """Ask a fresh server for its first answers; raise StartError unless they are good."""
    request = workload.request(record)
    primed = prime(running.url, AGAIN if record.round else TIMES, request)
    url = urljoin(running.url, request.path)
    kept_s = stall.kept_s(url, primed.alone_s, request) if record.keep_alive else None
    doubts: tuple[str, ...] = ()
    if not primed.stable and catalog.find_task(record.task).constants.get("STABLE", True):
        doubts = ("bodies: answers change: set STABLE = False in the task's file if they should",)
    return replace(
        record,
        url=url,
        alone_s=round(primed.alone_s, 6),
        kept_s=None if kept_s is None else round(kept_s, 6),
        body_sha256=primed.body_sha256,
        body_bytes=len(primed.body),
        content=response_content.comparable_content(record.suite, primed.body),
        flags=doubts,
    )
