"""A live server: started, warmed up, and loaded in slices that alternate with other servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from offload.bench.records.record import PAIR, Baseline, CaseFacts, Record, ServerFacts, Trial
from offload.bench.target import server
from offload.bench.target.needed_upstream import hold_for
from offload.bench.trial import builder, load_phase, workload
from offload.bench.trial.single_request import SingleRequest
from offload.bench.trial.trial import baseline, built
from offload.flags import Flag
from offload.suites import Case
from offload.upstream import Upstream


@dataclass(frozen=True)
class Live:
    """A running server, what its slices start with, and its upstream."""

    running: server.Server
    made: Trial
    case: CaseFacts
    facts: ServerFacts
    baseline: Baseline
    doubts: tuple[Flag, ...]
    upstream: Upstream | None

    def slice(self, number: int, seed: int, seconds: float, order: int | None = None) -> Record:
        """Load it for at least `seconds`, and until every user has a response."""
        made = replace(self.made, round=number, seed=seed, order=order)
        url = workload.url(self.running.url, self.case)
        serial = bool(self.running.facts.get("serial"))
        load = workload.window(url, self.case, self.facts, self.baseline, serial)
        window = replace(load.window, cycles=1.0, completions=workload.FEW)
        load = replace(load, seconds=seconds, window=window)
        loaded = load_phase.run(load, "builtin", self.running.facts, self.upstream)
        facts = builder.with_gil(self.facts, loaded.gil_state)
        alone = SingleRequest()
        return built(made, self.case, facts, self.baseline, alone, loaded, self.doubts)


@contextmanager
def live(case: Case, run: str, suite: str) -> Iterator[Live]:
    """Start a case's server for slices of a run, and stop it; raise what starting it raises."""
    with ExitStack() as stack:
        held = stack.enter_context(hold_for(case))
        running = server.start(case, {} if held is None else held.environment())
        stack.callback(server.stop, running, server.SHORT_DRAIN)
        made = builder.trial(run, kind=PAIR, suite=suite)
        case_facts = builder.case_facts(case, held)
        facts = builder.server_facts(running.facts)
        before, doubts = baseline(made, case_facts, workload.url(running.url, case_facts))
        yield Live(running, made, case_facts, facts, before, doubts, held)
