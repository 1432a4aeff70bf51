"""The lag of event loops: a paused timer starts again with a request."""

from __future__ import annotations

import asyncio
import time

import pytest

from offload.serving.metrics import loop_lag


def test_a_request_does_not_fail_because_the_loop_of_a_paused_timer_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_lag, "_paused", [])
    monkeypatch.setattr(loop_lag, "_requested", 0.0)

    async def pause() -> None:
        loop_lag.watch(asyncio.get_running_loop())
        async with asyncio.timeout(20):
            while not loop_lag._paused:
                await asyncio.sleep(0.01)

    asyncio.run(pause())
    loop_lag.note_request()
    assert loop_lag._paused == []


def test_the_first_requests_after_a_pause_are_sampled_if_they_block_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_lag, "_paused", [])
    monkeypatch.setattr(loop_lag, "_requested", 0.0)

    async def block_after_pause() -> dict[str, float | None]:
        loop_lag.watch(asyncio.get_running_loop())
        async with asyncio.timeout(20):
            while not loop_lag._paused:
                await asyncio.sleep(0.01)
        began = time.monotonic()
        loop_lag.note_request()
        time.sleep(0.2)
        await asyncio.sleep(0.05)
        return loop_lag.between(began, time.monotonic())

    found = asyncio.run(block_after_pause())
    assert found["loop_lag_max_ms"] > 100  # type: ignore[operator]


def test_the_timer_does_not_pause_while_a_request_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_lag, "_paused", [])
    monkeypatch.setattr(loop_lag, "_requested", 0.0)
    inside = 1

    async def take_long() -> int:
        nonlocal inside
        seen = 0

        def count() -> None:
            nonlocal seen
            seen += 1

        loop = asyncio.get_running_loop()
        loop_lag.watch(loop, on_sample=count, count_inside=lambda: inside)
        async with asyncio.timeout(20):
            while seen < 5:
                await asyncio.sleep(0.01)
            inside = 0
            while not loop_lag._paused:
                await asyncio.sleep(0.01)
        return seen

    assert asyncio.run(take_long()) >= 5
