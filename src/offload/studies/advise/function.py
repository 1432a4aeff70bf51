"""A function for which advice is asked: what its calls cost, and the servers that can call it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from offload.causes import who as who_in_words
from offload.causes.gains import Gain, Switch
from offload.engine.application import Who
from offload.engine.server import hold_for
from offload.registry import catalog, places
from offload.studies.advise import costs, probe_measurement
from offload.studies.advise.choice import LOOP_S
from offload.studies.advise.costs import Costs
from offload.studies.advise.evidence import LOOPS, Evidence, Question
from offload.studies.advise.probe import LOOP, PROCESSES, THREADS, Probe
from offload.suites import Case
from offload.units import percent, seconds

SERVERS = ("loop", "prefork", "threads", "gunicorn_gthread", "processes", "pipes")

OWN_THREADS = 1.25  # CPU time of a call over its time, if it has threads of its own; a guess
ONE_THREAD = Switch({"OMP_NUM_THREADS": "1"})  # of OpenMP, OpenBLAS and MKL
BESIDE = {LOOP: "Event loops", THREADS: "Several threads", PROCESSES: "Several processes"}


@dataclass(frozen=True)
class Function:
    """A function, and what its calls cost without a server.

    `who` are its lines in the set-up in which it was sampled, whose name is `sampled`. `gain` is
    that of set-ups in which a call has no threads of its own; None if it has none anyway, or if
    that was not measured.
    """

    probe: Probe
    who: Who | None = None
    sampled: str | None = None
    gain: Gain | None = None

    @cached_property
    def costs(self) -> Costs:
        """The costs of a request."""
        return costs.estimate_from_probe(self.probe)

    @property
    def alone_s(self) -> float:
        """The time of one call in s."""
        return self.probe.call.wall_s

    @property
    def response_s(self) -> float:
        """The response time that decides how long an answer takes, in s."""
        return self.alone_s

    @property
    def has_own_threads(self) -> bool:
        """Whether a call computes in several threads at once, such as those of BLAS."""
        return self.probe.call.cpu_s > OWN_THREADS * self.probe.call.wall_s

    def title(self, case: Case) -> str:
        """Return its name, for a headline."""
        return places.display_name(case.task)

    def why(self) -> Iterator[str]:
        """Yield what a call costs."""
        call = self.probe.call
        holds = "" if call.hold is None else f"; it holds the GIL for {percent(call.hold)} of that"
        yield (
            f"A call alone takes {seconds(call.wall_s)}: {seconds(call.cpu_s)} of CPU and "
            f"{seconds(call.wait_s)} of waiting{holds}."
        )
        lines = " ".join(who_in_words.sentences(self.who))
        if lines:
            yield f"In {self.sampled}: {lines}"
        yield from self._left_out()

    def _left_out(self) -> Iterator[str]:
        """Yield what is not safe if several calls run at once, and what to do."""
        for kind, name in BESIDE.items():
            points = self.probe.select_points(kind)
            if self.probe.fails(kind):
                worst = max(points, key=lambda each: each.failed)
                error = "" if worst.error is None else f" ({worst.error})"
                fails = f"of {worst.count} calls at once {percent(worst.failed)} fail{error}"
                yield f"{name} are left out: {fails}. Fix that, or limit them by connections=."
            elif kind == THREADS and self.probe.is_unsafe_in_threads:
                yield f"{name} are left out: results there differ from those of a call alone."

    @property
    def blocks_a_coroutine(self) -> bool:
        """Whether it is a coroutine that blocks its event loop."""
        return self.probe.is_coroutine and self.probe.on_loop_s > LOOP_S

    def notes(self, best: Evidence) -> Iterator[str]:
        """Yield what the reader must know of the function in the chosen set-up."""
        setup, call, blocks_s = best.setup, self.probe.call, self.probe.on_loop_s
        if blocks_s > LOOP_S and setup.kind == LOOPS:
            blocks = f"A call blocks its event loop for {seconds(blocks_s)}"
            yield f"{blocks}: health checks wait behind it."
        if setup.slots is not None and setup.slots > 1 and call.wait_s > call.cpu_s:
            yield f"It opens up to {setup.slots} connections to what it calls."
            twice = "it needs twice as many threads or workers"
            yield f"If what it waits for takes twice as long, {twice}."
        if self.has_own_threads:
            yield "A call computes in threads of its own, such as those of BLAS: others hinder it."
            if self.gain is not None:
                yield f"{self.gain.text}."
            if self.gain is None or not self.gain.is_refuted:
                yield f"Repeat this with {ONE_THREAD.text} in the environment."

    def values(self) -> dict[str, Any]:
        """Return the values of its own in the JSON object."""
        return {"alone_s": self.alone_s, **who_in_words.values(self.who)}


def measure(case: Case, question: Question) -> Function:
    """Measure what the calls of a function cost, in 10 s; raise UserError if it fails."""
    at_once = min(question.users or costs.PROBE_USERS, question.connections or costs.PROBE_USERS)
    with hold_for(case) as upstream:
        return Function(probe_measurement.measure(case, upstream, at_once, question.memory_mib))


def servers() -> tuple[list[str], list[str]]:
    """Return the servers that are installed, and those that are not."""
    installed: list[str] = []
    missing: list[str] = []
    for name in SERVERS:
        needs = catalog.find_server(name).needs
        is_installed = all(importlib.util.find_spec(each) is not None for each in needs)
        (installed if is_installed else missing).append(name)
    return installed, missing
