"""Hold times are runs of samples with the same holder, weighted by time."""

from __future__ import annotations

import pytest

from offload.engine.gil_sampler import hold_quantile_s

MS = 0.001


def length(samples: str, share: float = 0.9) -> float | None:
    """Evaluate samples of every ms: `.` is a free GIL, a digit a locked one and its switches."""
    times = [at * MS for at in range(len(samples))]
    counts = [0 if sample == "." else int(sample) for sample in samples]
    return hold_quantile_s(times, [sample != "." for sample in samples], counts, MS, share)


@pytest.mark.parametrize(
    ("samples", "ms"),
    [
        ("11111", 5),
        ("..111..", 3),
        ("11122233344", 3),  # each thread's turn is a hold of its own
        ("111.111.111", 3),  # a free GIL ends a hold, also of the same thread
        ("1.2.3.4.5.6.777777777777777", 15),  # short ones are many, and little of the time
        ("1111111111222222222233333333334444444444555555555556666666666.777", 11),
        ("1" * 10 + "2" * 10 + "." * 50 + "3", 10),
    ],
)
def test_the_holds_that_most_of_the_held_time_is_spent_in(samples: str, ms: int) -> None:
    assert length(samples) == pytest.approx(ms * MS)


def test_a_share_of_the_held_time_is_in_no_longer_ones() -> None:
    samples = "1.2.3.4.5555"  # 4 ms in holds of 1, 4 ms in one of 4
    assert length(samples, 0.45) == pytest.approx(1 * MS)
    assert length(samples, 0.55) == pytest.approx(4 * MS)


@pytest.mark.parametrize("samples", ["", "....."])
def test_without_a_hold_there_is_no_length(samples: str) -> None:
    assert length(samples) is None
