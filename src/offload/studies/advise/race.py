"""The race: rounds of at most five set-ups in one block, then response times of the best two.

costs -> prior -> round 1 -> slow ones leave, neighbours of the leader join -> more rounds
      -> open loops of the best two at the same rates -> the required rate for 20 s
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import accumulate, takewhile
from pathlib import Path

from offload import resource_limits
from offload.causes import diagnosis
from offload.causes.gains import Switch
from offload.engine import builder, journal
from offload.engine import plan as plans
from offload.engine.plan import Plan, Sequential
from offload.engine.progress import own_progress, remove_progress, write_progress
from offload.engine.record import LONG, WINDOW, Record, Trial
from offload.engine.rounds import WindowDesign, measure_round, users_after_stall
from offload.engine.run import measure_open_loops
from offload.engine.server import hold_for
from offload.errors import FAILED_REQUEST
from offload.loads import Arrivals, Load
from offload.loads.engine.loops import arrivals as arrival_times
from offload.registry import catalog
from offload.registry.catalog import is_application
from offload.studies.advise import overload
from offload.studies.advise.choice import NEAR, Choice, choose
from offload.studies.advise.costs import Costs
from offload.studies.advise.evidence import LOOPS, Evidence, Question, Setup
from offload.studies.advise.prior import MOST_CANDIDATES, MOST_USERS, Prior
from offload.studies.advise.result import (
    ALONE,
    SWITCHES,
    case_of,
    evidence,
    is_promising,
    is_raced,
    switched,
)
from offload.suites import Case
from offload.units import counted
from offload.upstream import Upstream

SUITE = "advise"
DESIGN = WindowDesign(has_one=True, beside_s=1.2)  # memory is read after 1 s
FEWEST, USUAL, MOST_ROUNDS = 2, 3, 7  # rounds; response times need one pass until USUAL
SLOW = 0.6  # share of the best rate in the first round, below which a set-up leaves
NEIGHBOURS = 2
# Switches of causes are measured in rounds of a block of their own, with new servers.
SWITCH_DESIGN = WindowDesign(beside_s=1.2, reads_idle=True)
SWITCH_ROUNDS, SWITCH_S = 3, 5.0  # rounds, and the usual time in s of a server in one
ROUND_CALLS = 6.0  # calls one after another that the measurement of a slow set-up takes
ROUND_CYCLES = 2.5  # or so many cycles, with its warm-up and its last responses: users / rate
# So many, or MOST_S, if a process serves one call after another: connections are uneven.
UNEVEN_CYCLES, MOST_S = 8.0, 35.0
LONGEST_SWITCH_S = 60.0  # s after which no third round starts
MOST_SWITCHES = 2  # beside the set-up as it is
MOST_MEMORY = 0.8  # share of the memory that these servers may need
SHARES = (0.5, 0.8)  # of the slowest round of the best two: a slow minute is in the reserve
LOAD_S, WARM_S, PASSES = 3.0, 0.3, 4  # of an open loop; only the last share is loaded repeatedly
EACH_LOAD_S = LOAD_S + WARM_S + 0.5  # with its start and end
LEAST_LOADS_S = 2 * EACH_LOAD_S + 2.0  # one load of each of the best two, with their servers
ROUND_S = 2.5  # usual time of a set-up in a round, with the start and end of its server
MOST_SEEDS, MOST_ARRIVALS = 64, 65_000  # simulated for typical arrivals: 60 ms
KEEP_ALIVE_S = 6.0
PRELOAD_LOAD_S, PRELOAD_S = 2.0, 4.0  # of preloaded processes; with the start of their server
MOST_PRELOADS = 2
MOST_CHOICES = 3  # set-ups that become the choice while response times are measured
RATE_S = 20.0  # s of the load at the required rate
BOUND_BY_USERS = 0.8  # share of users / response time alone, from which users limit a loop

Report = Callable[[str], object]


@dataclass
class Race:
    """A race in progress; `case` has the work, and `ends` is in s of time.monotonic().

    `costs` are known before the race: of a function, or from `measure_alone`. With `overloads` the
    choice is loaded beyond its capacity at the end. With `measures_switches` there is time for what
    may remove the causes of an application's limit. `is_brief`: one round, without response times,
    as these are long; a call takes `call_s` alone. With `variables` several processes may share the
    cores better.
    """

    question: Question
    case: Case
    folder: Path
    report: Report
    ends: float
    costs: Costs | None = None
    overloads: bool = False
    measures_switches: bool = True
    is_brief: bool = False
    call_s: float = 0.0
    variables: Switch | None = None
    seed: int = field(default_factory=plans.new_seed)
    cases: list[Case] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    users: dict[Setup, int] = field(default_factory=dict)
    # Of the last round: the time for each set-up, and the part of it that starts and stops servers.
    _each_s: float = 0.0
    _start_s: float = 0.0

    @property
    def plan(self) -> Plan:
        """The plan of the cases so far; it has no blocks: a race cannot be resumed."""
        return Plan(SUITE, tuple(self.cases), self.seed, None, Sequential(quick=True))

    @property
    def prior(self) -> Prior:
        """The bounds of the set-ups."""
        assert self.costs is not None
        return Prior(self.costs, self.question)

    def measure_alone(self, setup: Setup, users: int) -> list[Record]:
        """Measure one set-up of an application alone, for its costs and the causes of its limit.

        There is a second record, with fewer users, if none or hardly any of many had a response.
        """
        found = self._probe(setup, users)
        if (few := users_after_stall(found[-1])) is not None:
            many, which = found[-1].case.users, counted(few, "user")
            had = found[-1].result.completed or "no"
            self.report(f"{many} users had {had} responses: a new server, with {which}")
            found += self._probe(setup, few, is_known=True)
        return found

    def _probe(self, setup: Setup, users: int, is_known: bool = False) -> list[Record]:
        self.users[setup] = users
        index = self._case_index(setup)
        cases = {index: self.cases[index]}
        self._show_progress("one process", cases)
        design = replace(DESIGN, sampled=(index,), is_probe=True, is_known=is_known)
        found = measure_round(cases, self._trial(ALONE), None, lambda *_: None, True, design)
        del self.users[setup]
        self._keep(found)
        return found

    def measure_switches(self, records: Sequence[Record]) -> None:
        """Measure a case with and without what may remove the causes that its records show."""
        changed = self._add_switched(records)
        if not changed:
            return
        index = records[-1].trial.case_index or 0
        name, how = self.cases[index].name, " and ".join(changed.values())
        round_s = (1 + len(changed)) * _switch_s(records[-1])
        rounds = max(FEWEST, min(SWITCH_ROUNDS, math.ceil(LONGEST_SWITCH_S / round_s)))
        self.report(f"{name} without and with {how}: about {rounds * round_s:.0f} s")
        self._measure_in_pairs([index, *changed], None)

    def _measure_in_pairs(self, case_indexes: Sequence[int], upstream: Upstream | None) -> None:
        """Measure cases in rounds of a block of their own, with new servers in each."""
        cases = {each: self.cases[each] for each in case_indexes}
        ends = time.monotonic() + LONGEST_SWITCH_S
        for number in range(1, SWITCH_ROUNDS + 1):
            self._show_progress("remedies", cases)
            trial = replace(self._trial(number), block=SWITCHES)
            self._keep(measure_round(cases, trial, upstream, lambda *_: None, False, SWITCH_DESIGN))
            is_late = number >= FEWEST and time.monotonic() > ends
            if is_late and not is_promising(self.records, *case_indexes):
                break

    def _add_cases(self, cases: Iterable[Case]) -> list[int]:
        """Add cases to the plan; return their indexes."""
        first = len(self.cases)
        self.cases += cases
        journal.save_plan(self.plan, self.folder)
        return [*range(first, len(self.cases))]

    def _add_switched(self, records: Sequence[Record]) -> dict[int, str]:
        """Add the last case of records with what may remove its causes; return how, by index."""
        index = records[-1].trial.case_index or 0
        changed: dict[str, Case] = {}
        for switch in diagnosis.switches(records).values():
            case = switched(self.cases[index], switch)
            if case is not None and case not in self.cases and len(changed) < MOST_SWITCHES:
                changed[switch.text] = case
        if not changed or not self._has_memory_for(records, 1 + len(changed)):
            return {}
        return dict(zip(self._add_cases(changed.values()), changed, strict=True))

    def _has_memory_for(self, records: Sequence[Record], servers: int) -> bool:
        """Whether several servers as that of the records fit into the memory at once."""
        used = [each.resources.memory.whole_mib or 0.0 for each in records]
        return servers * max(used) < MOST_MEMORY * resource_limits.memory_mib()

    def run(self, candidates: Sequence[Setup]) -> None:
        """Measure until the answer is known; raise UserError if no upstream can be started."""
        try:
            with hold_for(self.case) as upstream:
                if self.is_brief:
                    self._measure_briefly(candidates, upstream)
                    return
                candidates = candidates[: self._most_setups(FEWEST, ROUND_S)]
                self._report_time(candidates)
                self.measure(1, candidates, upstream)
                if self._has_failed():
                    return
                self._raise_users(upstream)
                setups = self._after_first(candidates)
                number = 1
                while number < FEWEST or self._has_time_for_another(number, len(setups)):
                    number += 1
                    self.measure(number, setups, upstream)
                self._measure_latencies(upstream)
                self._measure_required_rate(upstream)
                self._measure_keep_alive(upstream)
                self._measure_preloaded()
                self._measure_remaining_causes()
                self._measure_variables(upstream)
                self._measure_overload(upstream)
        finally:
            remove_progress(self.folder)

    def _has_failed(self) -> bool:
        """Whether no set-up works, and not just because a call failed that was a first request."""
        if self.choice() is not None:
            return False
        kinds = {each.problem.kind for each in self.records if each.problem is not None}
        return FAILED_REQUEST not in kinds or any(each.rates for each in self.evidence())

    def _report_time(self, setups: Sequence[Setup]) -> None:
        names = ", ".join(each.name for each in setups)
        self.report(f"the answer takes about {self._left_s:.0f} s more: {names}")

    def choice(self) -> Choice | None:
        """Return the choice from the records so far; None if no set-up works."""
        if self.costs is None:
            return None
        return choose(self.question, self.evidence(), self.costs.blocks_s)

    def evidence(self) -> list[Evidence]:
        """Return what the records so far say of each set-up."""
        return evidence(self.cases, self.records, self.costs, self.is_brief)

    def _case_index(self, setup: Setup) -> int:
        if setup not in self.users:
            self.users[setup] = self.prior.users(setup)
        case = case_of(setup, self.case, self.users[setup])
        if case not in self.cases:
            self._add_cases([case])
        return self.cases.index(case)

    def _keep(self, found: Sequence[Record]) -> None:
        journal.append(self.folder, *found)
        self.records.extend(found)

    def _measure_briefly(self, setups: Sequence[Setup], upstream: Upstream | None) -> None:
        """Measure one round of set-ups and, in the same block, one process with each remedy.

        There are as many set-ups as the time allows, at least two. The process that was measured
        alone is one of them; it is measured again only beside a remedy, or if its users limited it.
        """
        alone = [each for each in self.records if each.result.rate]
        changed = self._add_switched(alone) if alone else {}
        known = {each.setup for each in self.evidence() if self._is_known(each)}
        unknown = [each for each in setups if each not in known]
        fewest = 2
        if known and unknown and not changed:
            setups, fewest = unknown, 1
        rate = max((each.result.rate or 0.0 for each in alone), default=math.inf)
        start_s = max((each.trial.phases.get("start", 0.0) for each in alone), default=0.0)
        needed_s = [self._round_s(each, rate, start_s) for each in setups]
        longest_s, ends_s = max(needed_s), [*accumulate(needed_s)]
        left_s = self._left_s - len(changed) * longest_s
        chosen = setups[: max(fewest, sum(each <= left_s for each in ends_s))]
        others = [*changed]
        if changed:
            index = alone[-1].trial.case_index or 0
            self.report(f"also {self.cases[index].name} with {' and '.join(changed.values())}")
            if index not in map(self._case_index, chosen):
                others.append(index)
        all_s = ends_s[len(chosen) - 1] + len(others) * longest_s
        self.ends = time.monotonic() + all_s
        self._report_time(chosen)
        self.measure(1, chosen, upstream, others)

    def _is_known(self, found: Evidence) -> bool:
        """Whether there were far fewer requests in progress than users: these limit nothing."""
        in_progress = (found.capacity or math.inf) * self.call_s
        return found.users is not None and in_progress < BOUND_BY_USERS * found.users

    def _round_s(self, setup: Setup, rate: float, start_s: float) -> float:
        """Return how long a round takes for a slow set-up, in s.

        `rate` is that of one process, and `start_s` the time until one is ready.
        """
        allowed = min(self.prior.capacity(setup), rate * setup.all_processes)
        cycle_s = self.prior.users(setup) / allowed if allowed else 0.0
        load_s = max(ROUND_CALLS * self.call_s, ROUND_CYCLES * cycle_s)
        if setup.processes > 1 and allowed * self.call_s < 2 * setup.processes:
            load_s = max(load_s, min(MOST_S, UNEVEN_CYCLES * cycle_s))
        return load_s + setup.all_processes * start_s

    def measure(
        self,
        number: int,
        setups: Sequence[Setup],
        upstream: Upstream | None,
        changed: Collection[int] = (),
    ) -> None:
        """Measure a round of set-ups side by side; `changed` are cases with a remedy."""
        by_index = {self._case_index(setup): setup for setup in setups}
        trial = self._trial(number)
        cases = {index: self.cases[index] for index in (*by_index, *changed)}
        self._show_progress(f"round {number}", by_index)
        began = time.monotonic()
        design = replace(DESIGN, is_known=self.is_brief)
        if number == 1 and not is_application(self.case.task):
            design = replace(design, sampled=(min(by_index),))
        found = measure_round(cases, trial, upstream, lambda *_: None, False, design)
        others = [
            replace(each, trial=replace(each.trial, block=SWITCHES))
            for each in found
            if each.trial.case_index in changed
        ]
        found = [each for each in found if each.trial.case_index in by_index]
        self._keep([*found, *others])
        rates = ", ".join(
            f"{by_index[each.trial.case_index or 0].name} "
            + (f"{each.result.rate:.4g}/s" if each.result.rate else "failed")
            for each in found
        )
        self._each_s = (time.monotonic() - began) / len(cases)
        phases = found[-1].trial.phases
        self._start_s = (phases.get("start", 0.0) + phases.get("stop", 0.0)) / len(cases)
        left_s = self._left_s
        late = f"; {-left_s:.0f} s over the announced time"
        left = f"; about {left_s:.0f} s left" if left_s > 0 else late
        is_last = self.is_brief or math.isinf(left_s)
        self.report(f"round {number}: {rates}{'' if is_last else left}")

    def _trial(self, number: int) -> Trial:
        return builder.new_trial(
            self.folder.name,
            kind=WINDOW,
            suite=SUITE,
            block=0,
            round=number,
            seed=self.seed,
            quick=True,
        )

    def _show_progress(self, step: str, case_indexes: Collection[int]) -> None:
        """Write what is measured now for the live page."""
        ends = time.time() + max(0.0, self._left_s)
        progress = own_progress(step, "load", ends, ends)
        write_progress(self.folder, replace(progress, case_indexes=tuple(case_indexes)))

    @property
    def _left_s(self) -> float:
        return self.ends - time.monotonic()

    def _has_time_for_another(self, number: int, setups: int) -> bool:
        passes = 1 if number < USUAL else PASSES
        loads_s = 2 * ((len(SHARES) - 1 + passes) * EACH_LOAD_S + self._start_s)
        loads_s += self._last_loads_s + (RATE_S if self.question.rate else 0.0)
        return number < MOST_ROUNDS and self._left_s > loads_s + setups * self._each_s

    @property
    def _last_loads_s(self) -> float:
        """The time of the loads on kept connections, and of preloaded servers."""
        count = 1 + MOST_PRELOADS
        return KEEP_ALIVE_S + 1 + MOST_PRELOADS * PRELOAD_S + count * self._start_s

    def _raise_users(self, upstream: Upstream | None) -> None:
        """Double the users of event loops that they limit, and measure these once more."""
        while limited := [each for each in self.evidence() if self._is_bound_by_users(each)]:
            if self._left_s < len(limited) * self._each_s:
                return
            for each in limited:
                self.users[each.setup] = min(MOST_USERS, 2 * self.users[each.setup])
            self.measure(1, [each.setup for each in limited], upstream)

    def _is_bound_by_users(self, found: Evidence) -> bool:
        users = self.users.get(found.setup, MOST_USERS)
        if found.setup.kind != LOOPS or self.question.users is not None or users >= MOST_USERS:
            return False
        costs = self.prior.costs
        bound = users / costs.of[LOOPS].slot_s
        return costs.is_awaited and (found.capacity or 0.0) > BOUND_BY_USERS * bound

    def _after_first(self, setups: Sequence[Setup]) -> list[Setup]:
        """Drop set-ups after the first round, and add neighbours of the leader.

        Those are dropped that are slow, or slower than the leader and need more memory. If another
        server is the fastest, one of its neighbours is added: a few threads more, in which it sends
        responses, may make it certainly faster.
        """
        works = [each for each in self.evidence() if each.capacity and each.setup in setups]
        if not works:
            return [*setups]
        best = max(works, key=lambda each: each.capacity or 0.0)
        least = min(SLOW * (best.capacity or 0.0), self.question.rate or math.inf)
        now = self.choice()
        leader = best if now is None else now.best
        kept = [
            each.setup
            for each in works
            if (each.capacity or 0.0) >= least and not self._is_behind(each, leader)
        ]
        new = self._neighbours(leader, setups)
        if best.setup.server != leader.setup.server:
            theirs = [each for each in self._neighbours(best, setups) if each not in new]
            new = [*new[: NEIGHBOURS - 1], *theirs[:1], *new[NEIGHBOURS - 1 :]]
        kept.sort(key=lambda setup: setup != leader.setup)
        most = min(MOST_CANDIDATES + 1, self._most_setups(FEWEST - 1, self._each_s))
        return [*kept[:MOST_CANDIDATES], *new[:NEIGHBOURS]][:most]

    def _neighbours(self, found: Evidence, measured: Sequence[Setup]) -> list[Setup]:
        return [each for each in self.prior.neighbours(found.setup) if each not in measured]

    def _most_setups(self, rounds: int, each_s: float) -> int:
        """Return how many set-ups a number of rounds has time for: at least two."""
        return max(2, int((self._left_s - LEAST_LOADS_S) / (rounds * each_s)))

    def _is_behind(self, each: Evidence, leader: Evidence) -> bool:
        """Whether a set-up is slower and larger, and its response times are not asked for."""
        own_mib, most_mib = each.memory_mib or 0.0, leader.memory_mib or math.inf
        needs_more = own_mib > most_mib and not each.has_same_memory(leader)
        is_slower = (each.capacity or 0.0) < NEAR * (leader.capacity or 0.0)
        return needs_more and is_slower and self.question.p99_s is None

    def _measure_latencies(self, upstream: Upstream | None) -> None:
        """Load the best two set-ups at the same rates, in turn; then those chosen because of that.

        The response times may make another one the choice, such as one that may meet a required
        p99. It is loaded at the same rates, so that no choice has unknown response times.
        """
        rates: list[float] = []
        for _ in range(MOST_CHOICES):
            found = self.choice()
            if found is None or found.best.latencies or not found.best.capacity:
                return
            new = [found.best, *found.rows[1:2]] if not rates else [found.best]
            slowest = min(rate for each in new for rate in each.rates.values())
            if self.question.rate is not None and found.missed != "rate":
                rates = [self.question.rate]
            elif not rates:
                rates = [share * slowest for share in SHARES]
            names = " and ".join(each.setup.name for each in new)
            self.report(f"response times of {names} at {rates[-1]:.4g}/s")
            left_s = self._left_s - self._last_loads_s - len(new) * self._start_s
            passes = int(left_s / (len(new) * EACH_LOAD_S)) - len(rates) + 1
            lower = rates[:-1] if passes > 0 else []
            loads = [*lower, *rates[-1:] * max(1, min(PASSES, passes))]
            arrivals = [Arrivals(rate, "poisson") for rate in loads]
            seeds = typical_seeds(arrivals, slowest, self.seed)
            self.load([each.setup for each in new], arrivals, LOAD_S, upstream, seeds)

    def _measure_required_rate(self, upstream: Upstream | None) -> None:
        """Load the choice with the required rate for RATE_S, and any that this makes the choice."""
        rate, loaded = self.question.rate, list[Setup]()
        while rate is not None and (not loaded or self._left_s > RATE_S):
            found = self.choice()
            if found is None or found.missed == "rate" or found.best.setup in loaded:
                return
            loaded.append(found.best.setup)
            self.report(f"{loaded[-1].name} at the required {rate:.4g}/s for {RATE_S:.0f} s")
            self.load(loaded[-1:], [Arrivals(rate, "poisson")], RATE_S, upstream)

    def _measure_keep_alive(self, upstream: Upstream | None) -> None:
        """Load the choice by clients that reuse their connections, as often as by others."""
        found = self.choice()
        if found is None or not found.best.latencies or self._left_s < 0:
            return
        self.report(f"{found.best.setup.name} on kept connections: {KEEP_ALIVE_S:.0f} s")
        case = replace(self.cases[self._case_index(found.best.setup)], keep_alive=True)
        (index,) = self._add_cases([case])
        arrivals = [Arrivals(found.best.latencies[-1].rate, "poisson")]
        with closing(self._loads(index, arrivals, KEEP_ALIVE_S, upstream)) as loads:
            self._keep([*loads])

    def _measure_preloaded(self) -> None:
        """Load the choice with its work imported before the fork, and frozen, for its memory.

        A function is always imported before the fork.
        """
        found = self.choice()
        if found is None or found.best.setup.processes == 1 or not found.best.latencies:
            return
        if self._left_s < 0:
            return
        if not catalog.find_server(found.best.setup.server).can_preload:
            return
        preloads = ("yes", "freeze") if is_application(self.case.task) else ("freeze",)
        names = " and ".join(f"preload={each}" for each in preloads)
        self.report(f"memory with {names}: {PRELOAD_S * len(preloads):.0f} s")
        case = self.cases[self._case_index(found.best.setup)]
        arrivals = [Arrivals(found.best.latencies[0].rate, "poisson")]
        for each in preloads:
            (index,) = self._add_cases([replace(case, settings={**case.settings, "preload": each})])
            with closing(self._loads(index, arrivals, PRELOAD_LOAD_S, None)) as loads:
                self._keep([*loads])

    def _measure_remaining_causes(self) -> None:
        """Measure what may remove the causes that limit the choice, if one process had others."""
        found = self.choice()
        if found is None or not is_application(self.case.task) or not self.measures_switches:
            return
        index = self._case_index(found.best.setup)
        windows = [
            each for each in self.records if each.trial.case_index == index and is_raced(each)
        ]
        known = diagnosis.switches([each for each in self.records if each.trial.round == ALONE])
        windows = [each for each in windows if each.trial.kind == WINDOW]
        if diagnosis.switches(windows).keys() - known.keys():
            self.measure_switches(windows)

    def _measure_variables(self, upstream: Upstream | None) -> None:
        """Measure a function with `variables`, with a process for each core, beside the choice."""
        found, cores = self.choice(), resource_limits.cpu_count()
        if found is None or self.variables is None or not self.measures_switches:
            return
        plain = setup = found.best.setup
        if (setup.slots or setup.processes) < cores:
            setup = Setup("prefork", LOOPS, cores)
        needed_mib = self.prior.memory_mib(plain) + self.prior.memory_mib(setup)
        if needed_mib > MOST_MEMORY * resource_limits.memory_mib():
            return
        if not self.prior.is_possible(setup) or not found.best.capacity:
            return
        case = switched(case_of(setup, self.case, self.prior.users(setup)), self.variables)
        if case is None:
            return
        each_s = ROUND_S + ROUND_CALLS * self.call_s
        what = f"{plain.name} beside {setup.name} with {self.variables.text}"
        self.report(f"{what}: about {2 * SWITCH_ROUNDS * each_s:.0f} s")
        (index,) = self._add_cases([case])
        self._measure_in_pairs([self._case_index(plain), index], upstream)

    def _measure_overload(self, upstream: Upstream | None) -> None:
        """Load the choice beyond its capacity, as it is and with other settings."""
        found = self.choice()
        if not self.overloads or found is None or not found.best.capacity:
            return
        best = self.cases[self._case_index(found.best.setup)]
        case_indexes = self._add_cases(overload.cases(best))
        arrivals = [Arrivals(overload.LOAD * found.best.capacity, "poisson")]
        count = len(case_indexes)
        self.report(
            f"{found.best.setup.name} at {arrivals[0].rate:.4g}/s, {overload.LOAD:g} times its "
            f"capacity, with {count} settings: about {count * (overload.LOAD_S + 10):.0f} s"
        )
        for index in case_indexes:
            with closing(
                measure_open_loops(
                    self.cases[index],
                    arrivals,
                    self._long_trial(index),
                    upstream,
                    duration_s=overload.LOAD_S,
                    connections=overload.CONNECTIONS,
                    timeout_s=overload.TIMEOUT_S,
                )
            ) as loads:
                self._keep([*loads])

    def load(
        self,
        setups: Sequence[Setup],
        arrivals: Sequence[Arrivals],
        seconds: float,
        upstream: Upstream | None,
        seeds: Sequence[int] | None = None,
    ) -> None:
        """Load several set-ups with each of `arrivals` in turn; all servers run meanwhile."""
        case_indexes = [self._case_index(setup) for setup in setups]
        self._show_progress("response times", case_indexes)
        with ExitStack() as stack:
            loads: Mapping[int, Generator[Record]] = {
                index: stack.enter_context(
                    closing(self._loads(index, arrivals, seconds, upstream, seeds))
                )
                for index in case_indexes
            }
            for _ in arrivals:
                for each in loads.values():
                    if (record := next(each, None)) is not None:
                        self._keep([record])

    def _loads(
        self,
        index: int,
        arrivals: Sequence[Arrivals],
        seconds: float,
        upstream: Upstream | None,
        seeds: Sequence[int] | None = None,
    ) -> Generator[Record]:
        return measure_open_loops(
            self.cases[index],
            arrivals,
            self._long_trial(index),
            upstream,
            warm_s=WARM_S,
            duration_s=seconds + WARM_S,
            seeds=seeds,
        )

    def _long_trial(self, index: int) -> Trial:
        return builder.new_trial(
            self.folder.name,
            kind=LONG,
            suite=SUITE,
            case_index=index,
            seed=self.seed,
            quick=True,
        )


def _switch_s(record: Record) -> float:
    """Return how long a server as that of a record takes in a round of remedies, in s."""
    alone_s, start_s = record.baseline.alone_s or 0.0, record.trial.phases.get("start", 0.0)
    cycle_s = record.case.users / record.result.rate if record.result.rate else 0.0
    return max(SWITCH_S, start_s + max(ROUND_CALLS * alone_s, ROUND_CYCLES * cycle_s))


def typical_seeds(arrivals: Sequence[Arrivals], capacity: float, seed: int) -> list[int]:
    """Return a seed for each of several short loads, so that together they are like a long one.

    A few seconds of random arrivals have fewer or more bursts by chance. Near the capacity the p99
    of 12 s is 0.7 to 1.7 times that of ten minutes, and 0.9 to 1.15 times with these seeds
    (simulated). Each seed is simulated in one queue that is served at `capacity`; the seeds whose
    p99 there is nearest to that of all seeds together are returned.
    """
    found: list[int] = []
    for rate in dict.fromkeys(each.rate for each in arrivals):
        loads = sum(each.rate == rate for each in arrivals)
        tried = min(MOST_SEEDS, max(loads, int(MOST_ARRIVALS / (rate * LOAD_S))))
        times = {each: _queue_times(rate, capacity, each) for each in range(seed, seed + tried)}
        typical = _p99([one for each in times.values() for one in each])
        nearest = sorted((abs(_p99(own) - typical), each) for each, own in times.items())
        found += [each for _, each in nearest[:loads]]
    return found


def _queue_times(rate: float, capacity: float, seed: int) -> list[float]:
    """Return the times in s that requests of a load spend in one queue (Lindley's recursion)."""
    load = Load("", arrivals=Arrivals(rate, "poisson"))
    ends, found = 0.0, []
    for due in takewhile(lambda due: due < WARM_S + LOAD_S, arrival_times(load, seed, 0, 0.0)):
        ends = max(ends, due) + 1 / capacity
        if due >= WARM_S:
            found.append(ends - due)
    return found


def _p99(times: Sequence[float]) -> float:
    return sorted(times)[int(0.99 * len(times))] if times else 0.0
