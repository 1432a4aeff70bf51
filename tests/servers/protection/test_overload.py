"""Overload: with protection the workers serve clients that still wait; without it, none."""

from __future__ import annotations

import time

import pytest

from lab.faults.clients.overload_clients import overload
from tests.http_clients import get
from tests.servers.protection.conftest import Protected, counts
from tests.servers.protection.protected_tasks import NAP

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timing]

CLIENTS, PATIENCE, WORKERS = 200, 2.0, 4
CAPACITY = WORKERS / NAP
SECONDS = 7.0
START, END = 3.0, 7.0  # s of the window: the clients of the first moment have left or been served


@pytest.mark.parametrize("name", ["threads", "processes", "pipes"])
def test_a_protected_server_keeps_its_goodput(name: str, protected: Protected) -> None:
    running = protected(name, "nap", workers=WORKERS, max_wait=1)
    found = overload(int(str(running.facts["port"])), CLIENTS, SECONDS, PATIENCE)
    began = time.monotonic()
    assert get(running.url) == (200, b"rested")
    waited = time.monotonic() - began
    assert found.rate(START, END) >= 0.9 * CAPACITY
    assert found.refused > CLIENTS
    assert counts(running)["refused"] >= found.refused
    assert waited < 3 * 2 * NAP  # at most 2 tasks


@pytest.mark.parametrize("name", ["threads", "processes", "pipes"])
def test_a_server_without_protection_collapses(name: str, protected: Protected) -> None:
    running = protected(name, "nap", workers=WORKERS, protect="no")
    found = overload(int(str(running.facts["port"])), CLIENTS, SECONDS, PATIENCE)
    began = time.monotonic()
    assert get(running.url, 60) == (200, b"rested")
    assert found.rate(START, END) < 0.2 * CAPACITY
    assert time.monotonic() - began > 2 * PATIENCE


def test_a_protected_loop_serves_only_clients_that_still_wait(protected: Protected) -> None:
    running = protected("loop", "nap", max_wait=1)
    found = overload(int(str(running.facts["port"])), 50, SECONDS, PATIENCE)
    began = time.monotonic()
    assert get(running.url) == (200, b"rested")
    waited = time.monotonic() - began
    assert found.rate(START, END) >= 0.8 / NAP
    assert counts(running)["refused"] + counts(running)["dropped"] > 0
    assert waited < 3 * 2 * NAP
