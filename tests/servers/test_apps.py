"""The applications in their frameworks: their own routes, besides the task at `/`."""

from __future__ import annotations

import json

import pytest

from offload.engine import server
from offload.suites import Case
from tests.http_clients import get
from tests.installed import require

pytestmark = pytest.mark.server
FASTAPI = ("requests_async", "requests_sync", "requests_to_thread_async", "aiohttp_async")
ROUTES = [("flask_gunicorn", "requests_sync"), *(("fastapi_requests", each) for each in FASTAPI)]


@pytest.mark.parametrize(("name", "route"), ROUTES)
def test_a_route_responds_with_what_the_upstream_does(
    name: str, route: str, fetched_from: dict[str, str]
) -> None:
    require(name)
    running = server.start(Case(name, "noop_sync"), fetched_from)
    try:
        status, body = get(f"{running.url}{route}?seconds=0.01")
    finally:
        server.stop(running)
    assert status == 200
    assert json.loads(body)["answer"]
