"""A live server: started, asked for its first answers, and loaded by slices in turn with others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from offload import upstream
from offload.bench.records.record import PAIR, Record
from offload.bench.target import server
from offload.bench.trial import builder, workload
from offload.bench.trial.load_phase import measure_load
from offload.bench.trial.trial import prepared
from offload.registry import catalog
from offload.suites import Case
from offload.upstream import Upstream


@dataclass(frozen=True)
class Live:
    """A running server, the record that its slices begin with, and its upstream."""

    running: server.Server
    record: Record
    upstream: Upstream | None

    def slice(self, number: int, seed: int, seconds: float) -> Record:
        """Load it for `seconds` at least, and until every user has an answer."""
        record = replace(self.record, round=number, seed=seed)
        window = workload.window(record, self.running.facts)
        load = replace(window, seconds=seconds, cycles=1.0, completions=workload.FEW)
        return measure_load(record, load, "builtin", self.running.facts, self.upstream)


@contextmanager
def live(case: Case, run: str, suite: str) -> Iterator[Live]:
    """Start a case's server for slices of a run, and stop it; raise what starting it raises."""
    with ExitStack() as stack:
        held = None
        if "upstream" in catalog.find_task(case.task).needs:
            held = stack.enter_context(upstream.hold()).upstream
        running = server.start(case, {} if held is None else held.environment())
        stack.callback(server.stop, running, server.ABANDONED)
        record = replace(builder.new(case, run, held), kind=PAIR, suite=suite)
        yield Live(running, prepared(builder.with_facts(record, running.facts), running), held)
