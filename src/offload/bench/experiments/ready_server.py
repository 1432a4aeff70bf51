"""A server of a round: started, then ready, then loaded in windows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from offload.bench.records.record import Baseline, CaseFacts, Memory, Record, ServerFacts, Trial
from offload.bench.target import server
from offload.bench.target.server import Server
from offload.bench.telemetry import machine_speed
from offload.bench.telemetry.machine_speed import MachineSpeed
from offload.bench.trial import builder, load_phase, workload
from offload.bench.trial.load_phase import LoadOutcome
from offload.bench.trial.single_request import SingleRequest
from offload.bench.trial.trial import build_record
from offload.errors import UserError
from offload.flags import TOO_SLOW, Flag, Problem
from offload.loads import Load
from offload.suites import Case, Request
from offload.upstream import Upstream


@dataclass(frozen=True)
class StartedServer:
    """A case of the round and its started server, which may not be ready yet."""

    place: int
    case: Case
    facts: CaseFacts
    upstream: Upstream | None
    running: Server

    @property
    def request(self) -> Request:
        """The request that the users of the case send."""
        return self.case.request or Request()

    def stop(self, trial: Trial, error: UserError) -> Record:
        """Stop a server that cannot be measured; return the record of its error."""
        server.stop(self.running, server.SHORT_DRAIN)
        trial = replace(trial, place=self.place)
        return builder.unavailable(trial, self.facts, self.case.settings, error)


@dataclass(frozen=True)
class ReadyServer:
    """A server that has responded to its first requests."""

    started: StartedServer
    url: str
    facts: ServerFacts
    before: Baseline
    alone: SingleRequest
    flags: tuple[Flag, ...]

    def window(self, trial: Trial, neighbours: Sequence[int], window_s: float) -> Record:
        """Load the server once; with other servers in the block, for at least `window_s`.

        `neighbours` are the pids of the other servers.
        """
        speed = machine_speed.measure()
        case, running = self.started.facts, self.started.running
        load = self.load(window_s if neighbours else None)
        placement = self.started.case.placement
        if placement.hosts:
            load = workload.of_fixed_length(load, workload.cycle_s(case, self.facts, self.before))
        started = time.monotonic()
        loaded = load_phase.run(
            load,
            "builtin",
            running.facts,
            self.started.upstream,
            neighbours,
            placement.sender,
        )
        loaded = load_phase.with_pin(loaded, placement.pin)
        load_s = time.monotonic() - started
        return self.record(trial, loaded, load_s, speed, has_neighbours=bool(neighbours))

    def load(self, beside_s: float | None) -> Load:
        """Return the load of a window; see `workload.window`."""
        case, running = self.started.facts, self.started.running
        sent = self.started.request
        return workload.window(self.url, case, self.facts, self.before, sent, running, beside_s)

    def record(
        self,
        trial: Trial,
        loaded: LoadOutcome,
        load_s: float,
        speed: MachineSpeed,
        has_neighbours: bool,
    ) -> Record:
        """Return the record of a window, which took `load_s` with its start and end."""
        case = self.started.facts
        loaded = self._with_explanation(loaded)
        trial = replace(trial, place=self.started.place, phases={"load": round(load_s, 3)})
        facts = builder.with_gil(self.facts, loaded.gil_state)
        resources = loaded.resources
        host = replace(resources.host, python_s=speed.python_s, memory_s=speed.memory_s)
        memory = Memory() if has_neighbours else resources.memory  # servers of a block share pages
        loaded = replace(loaded, resources=replace(resources, host=host, memory=memory))
        return build_record(trial, case, facts, self.before, self.alone, loaded, self.flags)

    def _with_explanation(self, loaded: LoadOutcome) -> LoadOutcome:
        """Explain a failed load if its users waited for each other until the timeout."""
        case, problem = self.started.facts, loaded.problem
        is_slow = workload.waited_too_long(case, self.before, loaded.result.failed)
        if problem is None or not is_slow:
            return loaded
        takes = f"a request takes {self.before.alone_s:.3g} s alone, and there are {case.users}"
        what = f"{problem.text} ({takes} users)"
        fix = "use fewer users (users=1), or a shorter task"
        return replace(loaded, problem=Problem(TOO_SLOW, what, fix))
