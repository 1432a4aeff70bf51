"""The plan of a run: its cases and how they are measured, kept so that it can be resumed."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from offload import files
from offload.bench.records import machines
from offload.bench.stats import sequential
from offload.errors import StorageError
from offload.suites import Case, from_values

FILE = machines.FILE


@dataclass(frozen=True)
class Plan:
    """What a run measures: `cases` in the order of the table, in rounds whose order is of `seed`.

    Each case has one long run with `driver`, unless it is None, and visits with `builtin` until
    its rate is known to `target`, a share (None: 2 %, 5 % for quick and for slow cases). `missing`
    says why `driver` is not the published tool, None when it is, or when the user chose it.
    """

    suite: str
    cases: tuple[Case, ...]
    seed: int
    driver: str | None
    quick: bool = False
    target: float | None = None
    missing: str | None = None

    @property
    def design(self) -> sequential.SequentialDesign:
        """The numbers of visits at which the rate is analysed, and may be resolved."""
        return sequential.QUICK if self.quick else sequential.NORMAL

    def order(self, round: int) -> list[Case]:  # noqa: A002 - the method's own word
        """Return the cases in the order of one round: always the same for the same seed."""
        cases = list(self.cases)
        random.Random(f"{self.seed}-{round}").shuffle(cases)  # noqa: S311 - no secret
        return cases


def save(plan: Plan, folder: Path) -> None:
    """Save the plan in its run's folder; raise StorageError."""
    path = folder / FILE
    try:
        values = {**asdict(plan), machines.KEY: machines.read(folder)}
        files.replace(path, json.dumps(values, indent=1).encode() + b"\n")
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", "fix its rights or space") from error


def exists(folder: Path) -> bool:
    """Whether a run has a plan: comparisons and load tests keep only their machines in run.json.

    A file that cannot be read counts as a plan, so that `load` reports why.
    """
    try:
        return "cases" in json.loads((folder / FILE).read_bytes())
    except (OSError, ValueError, TypeError):
        return True


def load(folder: Path) -> Plan:
    """Read the plan of a run; raise StorageError when there is none that can be read."""
    path = folder / FILE
    try:
        values = json.loads(path.read_bytes())
        values.pop(machines.KEY, None)
        cases = tuple(from_values(case) for case in values.pop("cases"))
        return Plan(cases=cases, **values)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}: this run cannot go on") from error
    except (ValueError, TypeError, KeyError) as error:
        raise StorageError(f"{path} is no plan of a run: {error}") from error


def new_seed() -> int:
    """Return a random seed for a run."""
    return random.SystemRandom().randrange(1 << 32)


def names(cases: Sequence[Case]) -> list[str]:
    """Return the short forms of cases."""
    return [case.name for case in cases]
