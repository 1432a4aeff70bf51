"""Real servers with real applications."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from offload.engine import server
from offload.registry import catalog
from offload.suites import Case
from tests.applications import APPS
from tests.installed import require

Serve = Callable[..., server.Server]
OF_KIND = {kind: catalog.servers_of(kind) for kind in ("asgi", "wsgi", "tornado")}


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve an application of `apps` by `serve("hypercorn", "pure:app")`; stop it at the end."""
    running: list[server.Server] = []

    def begin(name: str, app: str, **settings: object) -> server.Server:
        require(name)
        case = Case(name, catalog.find_task(f"app={app}").name, settings=settings, path=str(APPS))
        running.append(server.start(case, {}))
        return running[-1]

    yield begin
    for each in running:
        server.stop(each)
