"""The lag of event loops: a paused timer starts again with a request."""

from __future__ import annotations

import asyncio

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
