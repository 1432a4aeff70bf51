"""The plan of a run: its cases and how they are measured, saved so that it can be resumed."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from offload import files
from offload.bench.records import machines
from offload.bench.records.blocks import Block
from offload.bench.stats import sequential
from offload.errors import StorageError
from offload.suites import Case, from_values

FILE = machines.FILE


@dataclass(frozen=True)
class Plan:
    """The `cases` of a run in the order of the table, and how they are measured.

    Each of `blocks` is measured with `builtin` in rounds, whose order `seed` determines. A block
    with pairs ends when all ratios have verdicts. A block without pairs ends when the half-widths
    of all rates are within `target`, a share (None: 2 %; 5 % with `quick` and for slow cases). With
    `rounds` every block has exactly this number of rounds. A round that would exceed `budget_s`
    seconds of measuring is not started (None: unlimited). Then each case has one long run with
    `driver`, unless that is None. `missing` is the reason why `driver` is not the published tool;
    None if it is, or if the user chose it.
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

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of rounds after which a block is analysed, and may end."""
        return sequential.design(self.quick).counts if self.rounds is None else (self.rounds,)

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
        files.replace(path, json.dumps(values, indent=1).encode() + b"\n")
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", "fix its rights or space") from error


def exists(folder: Path) -> bool:
    """Whether a run has a plan: for load tests run.json has only the machines.

    A file that cannot be read counts as a plan, so that `load` reports why.
    """
    try:
        return "cases" in json.loads((folder / FILE).read_bytes())
    except (OSError, ValueError, TypeError):
        return True


def load(folder: Path) -> Plan:
    """Read the plan of a run; raise StorageError if it is missing or not readable."""
    path = folder / FILE
    try:
        values = json.loads(path.read_bytes())
        values.pop(machines.KEY, None)
        cases = tuple(from_values(case) for case in values.pop("cases"))
        blocks = tuple(_block(**block) for block in values.pop("blocks"))
        return Plan(cases=cases, blocks=blocks, **values)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}: this run cannot be resumed") from error
    except (ValueError, TypeError, KeyError) as error:
        raise StorageError(f"{path} is not a plan of a run: {error}") from error


def _block(cases: Sequence[int], pairs: Sequence[Sequence[int]], apart: bool) -> Block:
    return Block(tuple(cases), tuple((one, other) for one, other in pairs), apart)


def new_seed() -> int:
    """Return a random seed for a run."""
    return random.SystemRandom().randrange(1 << 32)


def names(cases: Sequence[Case]) -> list[str]:
    """Return the short forms of cases."""
    return [case.name for case in cases]
