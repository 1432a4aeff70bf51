"""Servers in turn: all live at once, each loaded for a slice in every round, in random order.

Rounds are blocks: what disturbs the machine for longer than one disturbs all servers alike.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from offload.bench.experiments import paired
from offload.bench.experiments.live import Live, live
from offload.bench.records import journal, plan
from offload.bench.records.record import Record
from offload.errors import MachineError, StartError
from offload.suites import Case

MIN_ROUNDS = 3  # rounds: an interval needs some
TOGETHER = 4  # rounds between fresh starts of all servers, so that no one start decides


@dataclass(frozen=True)
class InTurn:
    """The records of all rounds, and by server why it is `missing`, wholly or from some round on.

    Without a record there is no `folder`.
    """

    records: tuple[Record, ...]
    missing: dict[str, str]
    folder: Path


def measure_interleaved(
    cases: Sequence[Case],
    suite: str,
    slice_s: float,
    budget_s: float,
    tell: Callable[[str], object],
) -> InTurn:
    """Load the servers in rounds while there is time for one more, in a run of their own.

    A server that lacks something or does not start is left out, and not tried again. Raises
    UsageError for a case that is none.
    """
    seed = plan.new_seed()
    rng = random.Random(seed)  # noqa: S311 - no secret
    records: list[Record] = []
    missing: dict[str, str] = {}
    with paired.run_of(suite, *cases) as folder:
        rounds = _rounds(budget_s)
        for first in rounds:
            with ExitStack() as stack:
                servers = _started(stack, cases, folder.name, suite, missing)
                if not servers:
                    tell("no server is left to be loaded")
                    break
                for number in chain([first], islice(rounds, TOGETHER - 1)):
                    tell(f"round {number}: {len(servers)} servers in turn")
                    for order, each in enumerate(rng.sample(servers, len(servers)), 1):
                        record = each.slice(number, seed, slice_s, order)
                        journal.append(folder, record)
                        records.append(record)
    return InTurn(tuple(records), missing, folder)


def _rounds(budget_s: float) -> Iterator[int]:
    """Number the rounds from 1 on, while there is time for one as long as the longest."""
    end, longest, number = time.monotonic() + budget_s, 0.0, 0
    while number < MIN_ROUNDS or time.monotonic() + longest < end:
        began, number = time.monotonic(), number + 1
        yield number
        longest = max(longest, time.monotonic() - began)


def _started(
    stack: ExitStack, cases: Sequence[Case], run: str, suite: str, missing: dict[str, str]
) -> list[Live]:
    """Start the servers that are not known to be missing, and note which are."""
    found = []
    for case in (case for case in cases if case.server not in missing):
        try:
            found.append(stack.enter_context(live(case, run, suite)))
        except MachineError as error:
            missing[case.server] = str(error)
        except StartError as error:
            missing[case.server] = f"{case.server} does not start: {error}"
    return found
