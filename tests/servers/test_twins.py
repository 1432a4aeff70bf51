"""The plain twins respond like the instrumented servers, and the bench can load them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from offload.engine import server
from offload.registry import catalog
from tests import ROOT
from tests.http_clients import get
from tests.installed import PLAIN

Start = Callable[..., server.Server]


def test_each_core_server_has_a_twin() -> None:
    core = {name for name, entry in catalog.servers().items() if entry.number is not None}
    assert set(PLAIN) == {f"plain_{name}" for name in core}
    for name in core:
        twin, own = (catalog.find_server(each) for each in (f"plain_{name}", name))
        shared = twin.settings.keys() & own.settings.keys()
        assert {key: twin.settings[key] for key in shared} == {
            key: own.settings[key] for key in shared
        }


@pytest.mark.parametrize("name", PLAIN)
def test_a_twin_has_nothing_of_ours_in_it(name: str) -> None:
    text = (ROOT / "servers" / f"{name}.py").read_text()
    assert "offload" not in text
    assert "pipepool" not in text


@pytest.mark.server
@pytest.mark.parametrize("name", PLAIN)
def test_a_twin_answers_as_its_server(name: str, start: Start) -> None:
    task = "simplehash_sync"
    twin = start(name, task)
    assert get(twin.url) == get(start(name.removeprefix("plain_"), task).url)
    server.stop(twin)
    assert (twin.process.returncode, twin.left, twin.ending["ended"]) == (0, False, True)


@pytest.mark.server
def test_the_twin_of_loop_awaits(start: Start) -> None:
    assert get(start("plain_loop", "sleep_async_split").url)[0] == 200


@pytest.mark.server
def test_a_busy_port_is_one_line_of_a_twin(start: Start) -> None:
    from tests.servers.lifecycle.command_line import begin, wait_for_end

    port = str(start("plain_threads", "noop_sync").facts["port"])
    code, lines = wait_for_end(begin("plain_threads", "noop_sync", port))
    assert (code, len(lines)) == (3, 1)
    assert f"port {port}: Address already in use" in lines[0]
