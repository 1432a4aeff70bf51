"""The plan of a run: its cases and how they are measured, saved so that it can be resumed."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from offload import files
from offload.bench.analysis.gate import GateTerms, Sides
from offload.bench.planning.blocks import Block
from offload.bench.records import lines, machines
from offload.bench.records.record import Record
from offload.bench.records.run_records import RunRecords
from offload.bench.stats import sequential
from offload.errors import StorageError, UsageError
from offload.registry import catalog
from offload.suites import Case

FILE = machines.FILE
GATE = "gate"  # `suite` of the runs of a gate
MAX_COUNT, MAX_ROUNDS = 10**9, 1000  # of users or requests; more rounds would take days
BUDGET_COUNTS = (10, 14)  # rounds of additional analyses in a run with a time budget


@dataclass(frozen=True)
class Plan:
    """The `cases` of a run in the order of the table, and how they are measured.

    Each of `blocks` is measured with `builtin` in rounds, whose order `seed` determines. A block
    with pairs ends when the ratios of all pairs have verdicts; if `budget_s` has time left, blocks
    with wide intervals have more rounds. A block without pairs ends when the half-widths of all
    rates are within `target`, a share (None: 2 %; 5 % with `quick` and for slow cases). With
    `rounds` every block has exactly this number of rounds. A round that would exceed `budget_s`
    seconds of measuring is not started (None: unlimited). With `gate` each pair is the baseline and
    the same case now, and a block ends when its gate is decided. After all rounds each case has one
    long run with `driver` (None: no long runs).
    `missing` is the reason why `driver` is not the published tool; None if it is, or if the user
    chose it.
    """

    suite: str
    cases: tuple[Case, ...]
    seed: int
    driver: str | None
    quick: bool = False
    target: float | None = None
    missing: str | None = None
    blocks: tuple[Block, ...] = ()
    budget_s: float | None = None
    rounds: int | None = None
    gate: GateTerms | None = None

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of rounds after which a block is analysed and may end."""
        counts = self.design_counts
        is_fixed = self.budget_s is None or self.rounds is not None or self.gate is not None
        more = () if is_fixed else BUDGET_COUNTS
        return *counts, *(count for count in more if count > counts[-1])

    @property
    def design_counts(self) -> tuple[int, ...]:
        """The counts of the sequential design alone, without BUDGET_COUNTS."""
        if self.gate is not None:
            return sequential.GATE.counts
        return sequential.design(self.quick).counts if self.rounds is None else (self.rounds,)

    def stopping_level(self, count: int) -> float:
        """Return the level at which the analysis after `count` rounds may end a block."""
        design = sequential.design(self.quick)
        return design.early if count < self.counts[-1] else design.level

    @property
    def cases_now(self) -> tuple[Case, ...]:
        """The cases of a gate as they are now: the last one of each block."""
        return tuple(self.cases[block.cases[-1]] for block in self.blocks)

    def sides(self, records: Sequence[Record]) -> list[Sides]:
        """Return for each case of a gate its windows of the baseline and its windows now."""
        own = RunRecords(records)
        return [
            Sides(*(own.at(place).windows() for place in (block.cases[0], block.cases[-1])))
            for block in self.blocks
        ]

    def cases_of(self, block: int) -> tuple[Case, ...]:
        """Return the cases of a block, by its number."""
        return tuple(self.cases[place] for place in self.blocks[block].cases)

    def title(self, block: int) -> str:
        """Return a short name of a block: what its cases have in common."""
        cases = self.cases_of(block)
        if len(cases) == 1:
            return cases[0].name
        tasks = list(dict.fromkeys(case.task for case in cases))
        return f"{len(cases)} servers with {tasks[0]}{', ...' if tasks[1:] else ''}"


def save(plan: Plan, folder: Path) -> None:
    """Save the plan in its run's folder; raise StorageError."""
    path = folder / FILE
    try:
        values = {**asdict(plan), machines.KEY: machines.read(folder)}
        for case, saved in zip(plan.cases, values["cases"], strict=True):
            saved["request"] = None if case.request is None else dict(case.request.masked)
        files.replace(path, json.dumps(values, indent=1).encode() + b"\n")
    except OSError as error:
        what = f"{path}: {error.strerror}"
        raise StorageError(what, "check permissions and disk space") from error


def exists(folder: Path) -> bool:
    """Whether a run has a plan; the run.json of single load tests has only machines.

    If the file cannot be read, return True, so that `load` reports why.
    """
    try:
        return "cases" in json.loads((folder / FILE).read_bytes())
    except FileNotFoundError:
        return False
    except (OSError, ValueError, TypeError, RecursionError):
        return True


def load(folder: Path) -> Plan:
    """Read the plan of a run; raise StorageError if it is missing or not readable."""
    path = folder / FILE
    try:
        values = json.loads(path.read_bytes())
        if not isinstance(values, dict):
            raise ValueError("it is not a JSON object")
        values.pop(machines.KEY, None)
        return _validated_plan(values)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}: this run cannot be continued") from error
    except (ValueError, TypeError, AttributeError, RecursionError, UsageError) as error:
        raise StorageError(f"{path} is not a plan of a run by this version: {error}") from error


def _validated_plan(values: dict[str, Any]) -> Plan:
    """Build a plan from the values of its file; raise ValueError if it cannot be run."""
    if "blocks" not in values:
        raise ValueError("it has no blocks: another version wrote it")
    plan: Plan = lines.built(Plan, values, "plan")
    _check_names(Plan, values)
    for case in values["cases"]:
        _check_names(Case, case)
    _check_values(plan)
    for block in plan.blocks:
        if not block.cases:
            raise ValueError("a block has no case")
        if not {*block.cases} <= {*range(len(plan.cases))}:
            raise ValueError(f"a block has cases {block.cases}, but there are {len(plan.cases)}")
        if any(len(pair) != 2 or not {*pair} <= {*block.cases} for pair in block.pairs):
            raise ValueError(f"a block of cases {block.cases} has pairs {block.pairs}")
    _check_gate(plan)
    return plan


def _check_values(plan: Plan) -> None:
    """Raise ValueError for a number with which no measurement is possible."""
    if plan.rounds == 0:
        raise ValueError("it has no rounds")
    for case in plan.cases:
        counts = {"users": case.users, "requests": case.requests, "clients": case.clients}
        counts |= {"slots": case.slots}
        for name, count in counts.items():
            _check_count(name, count, MAX_COUNT)
        if not case.seconds > 0:
            raise ValueError(f"seconds={case.seconds} must be more than 0")
        size = catalog.find_server(case.server).size
        known = None if size is None else case.settings.get(size, 1)
        if known is not None and not str(known).isdecimal():
            raise ValueError(f"setting {size}={known!r} is not a number of workers")
    _check_count("rounds", plan.rounds, MAX_ROUNDS)
    if plan.budget_s is not None and plan.budget_s < 0:
        raise ValueError(f"budget_s={plan.budget_s} must be at least 0")
    if plan.target is not None and not plan.target > 0:
        raise ValueError(f"target={plan.target} must be more than 0")


def _check_gate(plan: Plan) -> None:
    """Raise ValueError or UsageError for an invalid gate."""
    if (plan.suite == GATE) != (plan.gate is not None):
        raise ValueError(f"its suite is {plan.suite!r}, but only a gate has the field `gate`")
    if plan.gate is None:
        return
    if not 0 < plan.gate.loss < 1:
        raise ValueError(f"the loss {plan.gate.loss} of a gate must be between 0 and 1")
    if not plan.blocks or any(block.pairs != (block.cases,) for block in plan.blocks):
        raise ValueError("a gate compares two cases in each block")
    plan.gate.figures(plan.cases_now)


def _check_count(name: str, count: int | None, maximum: int) -> None:
    if count is not None and not 1 <= count <= maximum:
        raise ValueError(f"{name}={count} must be from 1 to {maximum}")


def _check_names(cls: type, values: dict[str, Any]) -> None:
    """Raise ValueError for an unknown field, because it may change what is measured."""
    if unknown := values.keys() - {each.name for each in fields(cls)}:
        raise ValueError(f"it has {', '.join(sorted(unknown))}: another version wrote it")


def new_seed() -> int:
    """Return a random seed for a run."""
    return random.SystemRandom().randrange(1 << 32)


def names(cases: Sequence[Case]) -> list[str]:
    """Return the short forms of cases."""
    return [case.name for case in cases]
