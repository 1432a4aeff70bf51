"""Responses of a given size are the same on every server that supports them, as bytes and str."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http_clients import get

pytestmark = pytest.mark.server
SERVERS = ("uvicorn_h11", "uvicorn_httptools", "hypercorn", "granian_asgi", "granian_rsgi")


@pytest.mark.parametrize("name", SERVERS)
def test_bytes_and_str_of_a_size_are_alike(name: str, start: Any) -> None:
    running = start(name, "noop_sync")
    for size in (10, 80_000):
        for kind in ("bytes", "str"):
            assert get(f"{running.url}{kind}/{size}") == (200, b"x" * size)
    for path in ("bytes/", "bytes/10/", "str/99999999", "other/10"):
        assert get(f"{running.url}{path}")[0] == 404


@pytest.mark.parametrize("name", ["granian_asgi", "granian_rsgi"])
@pytest.mark.parametrize("mode", ["mt", "st"])
def test_processes_threads_and_modes_are_those_that_are_requested(
    name: str, mode: str, start: Any
) -> None:
    running = start(name, "noop_sync", processes=2, runtime_threads=2, mode=mode)
    assert get(running.url) == (200, b"ok")
    assert (running.facts["processes"], running.facts["mode"]) == (2, mode)
