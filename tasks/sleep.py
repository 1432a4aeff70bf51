"""Sleeping: simulates the waiting times of a site that signs up a user."""

from __future__ import annotations

import asyncio
import time

SAVE_USER = 0.02  # seconds
SEND_EMAIL = 0.06
CALL_SOCIAL_API = 0.2
QUERY = 0.05
CACHE = 0.002
SECOND = 1.0
PAGE = b"<html><body><p>Welcome: you are signed up.</p></body></html>\n"


def sleep_sync() -> bytes:
    """Sleep 0.28 s: save a user, send an e-mail, call a social API, in one blocking call."""
    time.sleep(SAVE_USER + SEND_EMAIL + CALL_SOCIAL_API)
    return PAGE


def sleep_short_sync() -> bytes:
    """Sleep 0.05 s: like a database query, in one blocking call."""
    time.sleep(QUERY)
    return PAGE


def sleep_shortest_sync() -> bytes:
    """Sleep 0.002 s: like a read from a cache, in one blocking call."""
    time.sleep(CACHE)
    return PAGE


def sleep_second_sync() -> bytes:
    """Sleep 1 s: like a slow query, in one blocking call."""
    time.sleep(SECOND)
    return PAGE


async def sleep_second_async() -> bytes:
    """Sleep 1 s: awaited, as in benchmarks of other servers."""
    await asyncio.sleep(SECOND)
    return PAGE


def sleep_tenth_sync() -> bytes:
    """Sleep 0.1 s: a tenth of sleep_second_sync, in one blocking call."""
    time.sleep(SECOND / 10)
    return PAGE


async def sleep_tenth_async() -> bytes:
    """Sleep 0.1 s: awaited, a tenth of sleep_second_async."""
    await asyncio.sleep(SECOND / 10)
    return PAGE


async def sleep_async() -> bytes:
    """Sleep 0.28 s: inside a coroutine without awaiting, the classic mistake."""
    return sleep_sync()


async def sleep_async_split() -> bytes:
    """Sleep 0.28 s: three awaited sleeps; each frees the event loop."""
    await asyncio.sleep(SAVE_USER)
    await asyncio.sleep(SEND_EMAIL)
    await asyncio.sleep(CALL_SOCIAL_API)
    return PAGE
