"""A thread can request short time slices without privileges; its nice value is unchanged."""

from __future__ import annotations

import os
import platform
import sys
import threading

import pytest

from offload import prctl
from offload.engine import gil_sampler

KNOWN = sys.platform == "linux" and platform.machine() in gil_sampler.SCHED_SETATTR


@pytest.mark.skipif(not KNOWN, reason="the number of the call is not known here")
def test_a_thread_that_asks_keeps_its_nice_value() -> None:
    found: list[object] = []

    def ask() -> None:
        before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        found.append((gil_sampler.request_short_slice(), prctl.sleep_exactly()))
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) - before)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join(20)
    assert found == [(True, True), 0]


def test_without_a_known_system_call_nothing_is_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gil_sampler, "SCHED_SETATTR", {})
    assert gil_sampler.request_short_slice() is False
