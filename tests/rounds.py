"""Measure real servers in tests: one round of a block with the given cases."""

from __future__ import annotations

from typing import Any

import pytest

from offload.engine import builder, workload
from offload.engine.record import WINDOW, Record
from offload.engine.rounds import WindowDesign, measure_round
from offload.errors import UserError
from offload.suites import Case
from offload.upstream import Upstream


def measure_cases(
    *cases: Case,
    upstream: Upstream | UserError | None = None,
    with_gil: bool = False,
    design: WindowDesign | None = None,
    **made: Any,
) -> list[Record]:
    """Measure one round of a block of cases, whose places are 0, 1, ..."""
    trial = builder.new_trial("run", **{"kind": WINDOW, "block": 0, "round": 1, "seed": 1, **made})
    own = design or WindowDesign()
    return measure_round(dict(enumerate(cases)), trial, upstream, lambda *_: None, with_gil, own)


def measure_window(
    case: Case, with_gil: bool = False, at_least_s: float = workload.WINDOW, **made: Any
) -> Record:
    """Measure the only window of a case that has a block of its own.

    `at_least_s` may be shorter than a benchmark's where the length of the window proves nothing.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workload, "WINDOW", at_least_s)
        [record] = measure_cases(case, with_gil=with_gil, **made)
    return record
