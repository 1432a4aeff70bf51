"""Sleeping: what a site does for a user who signs up, imitated by waiting."""

from __future__ import annotations

import asyncio
import time

SAVE_USER = 0.02  # seconds
SEND_EMAIL = 0.06
CALL_SOCIAL_API = 0.2
QUERY = 0.05
SECOND = 1.0
PAGE = b"<html><body><p>Welcome: you are signed up.</p></body></html>\n"


def sleep_sync() -> bytes:
    """Sleep 0.28 s in one blocking call, as a user saved, an e-mail and a social API would take."""
    time.sleep(SAVE_USER + SEND_EMAIL + CALL_SOCIAL_API)
    return PAGE


def sleep_short_sync() -> bytes:
    """Sleep 0.05 s in one blocking call, as a query of a database would take."""
    time.sleep(QUERY)
    return PAGE


def sleep_second_sync() -> bytes:
    """Sleep 1 s in one blocking call, as a slow query would take."""
    time.sleep(SECOND)
    return PAGE


async def sleep_second_async() -> bytes:
    """Sleep one second, awaited, as other servers' benchmarks do."""
    await asyncio.sleep(SECOND)
    return PAGE


def sleep_tenth_sync() -> bytes:
    """Sleep 0.1 s in one blocking call: the second in a tenth of the time."""
    time.sleep(SECOND / 10)
    return PAGE


async def sleep_tenth_async() -> bytes:
    """Sleep 0.1 s, awaited."""
    await asyncio.sleep(SECOND / 10)
    return PAGE


async def sleep_async() -> bytes:
    """Sleep 0.28 s inside a coroutine without awaiting: the classic mistake."""
    return sleep_sync()


async def sleep_async_split() -> bytes:
    """Sleep the same 0.28 s as three awaited sleeps, each of which frees the event loop."""
    await asyncio.sleep(SAVE_USER)
    await asyncio.sleep(SEND_EMAIL)
    await asyncio.sleep(CALL_SOCIAL_API)
    return PAGE
