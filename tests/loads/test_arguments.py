"""No secret of a load is in the arguments of a process: every user can read those."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from offload import loads
from offload.errors import UsageError
from offload.loads import Load, Message
from tests.loads.conftest import Server

IN_HEADER, IN_QUERY, IN_BODY = SECRETS = (  # other tests run at the same time: their secrets differ
    f"header{os.getpid()}secret",
    f"query{os.getpid()}secret",
    f"body{os.getpid()}secret",
)
HEADERS = {"Authorization": f"Bearer {IN_HEADER}", "Accept": "text/html", "X-Key": f"{IN_HEADER}2"}
LOAD = Load("http://127.0.0.1/", users=2, seconds=2.0, keep_alive=True)
BY_ARGUMENT = ("ab", "h2load")  # they have no other way for headers


def installed(name: str) -> bool:
    if name == "locust":
        return importlib.util.find_spec(name) is not None
    return name == "builtin" or shutil.which(name) is not None


class Watching:
    """Collects the arguments of all processes until its block ends."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> set[bytes]:
        self._thread.start()
        return self.seen

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join(10)

    def _watch(self) -> None:
        while not self._ends.wait(0.02):
            for path in Path("/proc").glob("[1-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    self.seen.add(path.read_bytes())


@pytest.mark.server
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("driver", ["builtin", "siege", "wrk", "locust", *BY_ARGUMENT])
def test_other_users_cannot_read_a_secret(server: Server, driver: str, method: str) -> None:
    if not installed(driver):
        pytest.skip(f"{driver} is not installed: make test-all")
    body = f"a={IN_BODY}" if method == "POST" else None
    headers = {} if driver in BY_ARGUMENT else HEADERS
    path = "/http10" if driver == "ab" else "/"
    url = server.url(path) + ("" if driver == "ab" else f"?api_key={IN_QUERY}&b=2")
    server.answers[f"/?api_key={IN_QUERY}&b=2"] = server.answers["/"]
    message = Message(method, body, headers)
    with Watching() as seen:
        ran = loads.run(replace(LOAD, url=url, message=message), driver)
    assert ran.result.problem is None, ran.output
    tool = {"builtin": b"offload.loads.builtin"}.get(driver, driver.encode())
    assert any(tool in argv for argv in seen), "it ran"
    assert not [argv for argv in seen for secret in SECRETS if secret.encode() in argv]
    assert not [secret for secret in SECRETS if secret in str(ran)]
    head = server.heads[-1].decode()
    if driver != "ab":
        assert head.startswith(f"{method} /?api_key={IN_QUERY}&b=2 HTTP/1.1\r\n")
    if headers:
        assert f"{IN_HEADER}\r\n" in head and f"{IN_HEADER}2\r\n" in head
        assert "text/html" in head
    if body is not None:
        assert server.bodies[-1] == body.encode()


@pytest.mark.parametrize("value", ["a#b", "$(HOME)", "x" * 600])
def test_a_header_that_siege_cannot_read_from_a_file_is_refused(value: str) -> None:
    if not installed("siege"):
        pytest.skip("siege is not installed: make test-all")
    message = Message(headers={"Authorization": value})
    with pytest.raises(UsageError, match=r"siege .*: use driver=builtin") as caught:
        loads.check(replace(LOAD, message=message), "siege")
    assert value not in str(caught.value)
    loads.check(replace(LOAD, message=Message(headers={"Accept": value})), "siege")
