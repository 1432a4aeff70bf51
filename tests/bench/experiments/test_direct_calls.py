"""Direct calls measure a task in several workers, or report why it cannot run there."""

from __future__ import annotations

import sys
import time

import pytest

from offload.errors import MachineError
from offload.studies.gil import direct_calls as speed_up
from offload.studies.gil.direct_calls import call, direct

pytestmark = pytest.mark.server


def test_sleeps_in_four_workers_are_four_times_as_many_as_in_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(speed_up, "SECONDS", 0.35)  # seven sleeps
    with direct("sleep_short_sync", None, None, {}) as running:
        began = time.monotonic()
        found = speed_up.speed_ups(running, 4, ("threads", "processes"))
        lasted_s = time.monotonic() - began
    assert lasted_s > speed_up.least_s(2, 0.05) - speed_up.START
    assert 4 / 2 < found["threads"].ratio < 4 * 2
    assert 4 / 2 < found["processes"].ratio < 4 * 2
    assert found["threads"].switches < 50


def test_the_expected_time_is_longer_for_slow_calls() -> None:
    assert 5.0 < speed_up.least_s(2, 0.01) < 15.0
    assert speed_up.least_s(2, 5.0) >= 9 * 5.0 + speed_up.START


def test_workers_that_cannot_start_have_a_reason_and_others_still_run() -> None:
    if sys.version_info >= (3, 14):
        pytest.skip("this Python has interpreters")
    with direct("noop_sync", None, None, {}) as running:
        with pytest.raises(MachineError, match=r"interpreters need Python 3\.14"):
            call(running, "interpreters", 1, 0.1)
        assert call(running, "threads", 1, 0.01)["rate"] > 0
