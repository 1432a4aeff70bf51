"""Web: handlers that call other services over HTTP, with requests and httpx."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import os
import ssl
import threading
from xml.etree import ElementTree

import httpx
import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

NEEDS = ("upstream",)
STABLE = True
PACKAGES = ("requests", "httpx")
UPSTREAM = os.environ.get("UPSTREAM_HTTP", "http://127.0.0.1:8081")
PAGE = f"{UPSTREAM}/page.html"
FEED = f"{UPSTREAM}/feed.xml"
FLAKY = f"{UPSTREAM}/flaky"
LIMITED = f"{UPSTREAM}/limited?page=page.html"  # 100 responses per second
SERVICE = f"{UPSTREAM}/wait?page=page.html&seconds="
SERVICES = tuple(SERVICE + seconds for seconds in ("0.02", "0.03", "0.05"))
TIMEOUT = 30.0  # s
POOL = 2  # connections: too few on purpose
TRIES = 20
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # httpx loads the CAs for each client without it

_threads = threading.local()


def requests_page() -> bytes:
    """Fetch a page of 5 KB with requests, over a new connection."""
    with requests.Session() as session:
        return _get(session, PAGE)


def requests_slow_service() -> bytes:
    """Use requests to call a service that takes 50 ms, with one session per thread."""
    return _get(_session(), SERVICES[2])


def requests_three_services() -> str:
    """Call services that take 20, 30 and 50 ms sequentially, and hash their responses."""
    session = _session()
    return hashlib.sha256(b"".join(_get(session, url) for url in SERVICES)).hexdigest()


def requests_feed_titles() -> str:
    """Fetch a feed of 120 KB and list the titles in it."""
    root = ElementTree.fromstring(_get(_session(), FEED))  # noqa: S314 - our own feed
    return "\n".join(title.text or "" for title in root.iter("title"))


def requests_retries() -> bytes:
    """Fetch a page from a service that fails half of the requests, with retries."""
    return _get(_session(), FLAKY)


def requests_rate_limited() -> bytes:
    """Fetch a page from a service limited to 100 responses per second over all clients."""
    return _get(_session(), LIMITED)


def requests_small_pool() -> bytes:
    """Call a service that takes 50 ms, with a session of two connections that all threads share."""
    return _get(_shared_session(), SERVICES[2])


def httpx_new_client() -> bytes:
    """Fetch a page by httpx.get, which creates a client and loads the CAs for each call."""
    return httpx.get(PAGE, timeout=TIMEOUT).raise_for_status().content


async def httpx_async_services() -> str:
    """Await services that take 20, 30 and 50 ms concurrently, and hash their responses."""
    async with httpx.AsyncClient(timeout=TIMEOUT, verify=NO_TLS) as client:
        answers = await asyncio.gather(*(client.get(url) for url in SERVICES))
    return hashlib.sha256(b"".join(a.raise_for_status().content for a in answers)).hexdigest()


def requests_two_services() -> str:
    """Call services that take 20 and 30 ms sequentially, and hash their responses."""
    session = _session()
    return hashlib.sha256(b"".join(_get(session, url) for url in SERVICES[:2])).hexdigest()


def httpx_shared_client() -> bytes:
    """Fetch a page with an httpx client that all threads share."""
    return _shared_client().get(PAGE).raise_for_status().content


def httpx_slow_service() -> str:
    """Use a shared httpx client to call a service that takes 30 ms, and hash its response."""
    response = _shared_client().get(SERVICES[1]).raise_for_status()
    return hashlib.sha256(response.content).hexdigest()


def requests_page_links() -> str:
    """Fetch a page of 5 KB over a keep-alive connection, and list its words."""
    return " ".join(sorted({*_get(_session(), PAGE).decode("utf-8", "replace").split()}))


async def requests_in_coroutine() -> bytes:
    """Use requests in a coroutine to call a service that takes 20 ms: it blocks the event loop."""
    return _get(_session(), SERVICES[0])


def _get(client: requests.Session, url: str) -> bytes:
    response = client.get(url, timeout=TIMEOUT)
    response.raise_for_status()
    return response.content


def _session() -> requests.Session:
    """Return the session of this thread, which retries a failed request at once."""
    session: requests.Session | None = getattr(_threads, "session", None)
    if session is None:
        session = _threads.session = requests.Session()
        retry = Retry(TRIES, status_forcelist=[500], backoff_factor=0)
        session.mount("http://", HTTPAdapter(max_retries=retry))
    return session


@functools.cache
def _shared_client() -> httpx.Client:
    return httpx.Client(timeout=TIMEOUT, verify=NO_TLS)


@functools.cache
def _shared_session() -> requests.Session:
    session = requests.Session()
    session.mount("http://", HTTPAdapter(1, POOL, pool_block=True))
    return session
