"""GIL figures of a record: the formulas of formulas.py, applied to its times and samples."""

from __future__ import annotations

from dataclasses import dataclass

from offload.engine.figures import all_slots
from offload.engine.record import Record
from offload.studies.gil import formulas


@dataclass(frozen=True)
class Gil:
    """GIL figures: shares are from 0 to 1, and None is unknown.

    `hold` is h, `utilisation` rho, `wait_share` gamma, `inflation` kappa; `speed_up` is S_N of the
    record's slots, and `switches` is how often the GIL changed threads per request.
    """

    hold: float | None
    utilisation: float | None
    wait_share: float | None
    inflation: float | None
    speed_up: float | None
    switches: float | None


def gil_figures(record: Record) -> Gil:
    """Derive the GIL figures from one record; only records of round 1 have all of them."""
    gamma, kappa = _wait_share(record), _inflation(record)
    slots = all_slots(record)
    is_known = gamma is not None and kappa and slots
    return Gil(
        record.gil.hold.value,
        record.gil.utilisation.value,
        gamma,
        kappa,
        formulas.speed_up(slots or 1, gamma or 0.0, kappa or 1.0) if is_known else None,
        record.gil.switches / record.result.completed
        if record.gil.switches is not None and record.result.completed
        else None,
    )


def _wait_share(record: Record) -> float | None:
    w_n, c_n, q_n = record.tasks.wall_s, record.tasks.cpu_s, record.tasks.queued_s
    b = record.tasks.alone_blocked_s
    if w_n is None or c_n is None or q_n is None or b is None or w_n == 0:
        return None
    return formulas.wait_share(w_n, c_n, q_n, b)


def _inflation(record: Record) -> float | None:
    c_n, c_1 = record.tasks.cpu_s, record.tasks.alone_cpu_s
    return None if c_n is None or not c_1 else formulas.inflation(c_n, c_1)
