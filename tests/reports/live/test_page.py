"""The live page: its address is a secret, its content is text, and its source may be broken."""

from __future__ import annotations

import json
import re
import shutil
import socket
import threading
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from offload.documents.live import server
from offload.documents.live.view import RUNNING, RunView, Source, View
from offload.engine import journal
from offload.engine.progress import RunProgress, announce_run, own_progress, write_progress
from offload.engine.record import to_line
from tests.reports.live.serving import (
    PLAN,
    SCRIPT,
    TIMEOUT,
    Events,
    answer,
    finish,
    new_run,
    served,
    window,
)
from tests.rules import with_rule
from tests.waiting import wait_until

pytestmark = pytest.mark.server
TITLE = "<script>alert(1)<!--"


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the source more often than once a second."""
    monkeypatch.setattr(server, "EVERY", 0.05)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return new_run(tmp_path / TITLE)


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    with served(RunView(folder)) as found:
        yield found


def token_of(url: str) -> str:
    return urllib.parse.urlsplit(url).path.strip("/")


def test_a_wrong_word_gets_nothing(url: str) -> None:
    token = token_of(url)
    assert len(token) >= 32
    start = url.removesuffix(f"{token}/")
    paths = [
        "",
        "favicon.ico",
        "x/",
        "x/events",
        f"{token}x/",
        f"{token[:-1]}/events",
        "//",
        "%00/",
    ]
    for path in (*paths, f"x/../{token}/", f"?{token}", f"{token[:-1]}/report", "..", "*"):
        for method in ("GET", "POST", "HEAD", "OPTIONS", "NONSENSE"):
            status, headers, body = answer(start, path, method)
            assert status in (400, 404, 405), (method, path)
            assert token.encode() not in body
            assert token not in str(headers)
    assert answer(url)[0] == 200


def test_another_name_of_the_host_gets_404(url: str) -> None:
    port = urllib.parse.urlsplit(url).port
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1.evil.example",
        "",
        "[::1]",
    ):
        assert answer(url, Host=host)[0] == 404, host
        assert answer(url, "events", Host=host)[0] == 404, host
    for host in ("localhost", f"LOCALHOST:{port}", "127.0.0.1", "localhost:1"):
        assert answer(url, Host=host)[0] == 200, host


def test_no_other_origin_may_read_or_frame_it(url: str) -> None:
    status, headers, body = answer(url, Origin="http://evil.example")
    assert status == 200
    assert not [name for name in headers if name.startswith("access-control")]
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert policy["script-src"].startswith("'sha256-")
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert b"http://" not in body
    assert b"https://" not in body


def test_it_listens_on_this_machine_only(url: str) -> None:
    port = urllib.parse.urlsplit(url).port
    with socket.socket() as other, pytest.raises(ConnectionRefusedError):
        other.connect(("127.0.0.2", port))  # it would answer if it listened everywhere


def test_hostile_names_are_text(url: str) -> None:
    text = answer(url)[2].decode()
    assert "<title>&lt;script&gt;alert(1)&lt;!--: live</title>" in text
    assert text.count("<script") == 1
    assert "innerHTML" not in text
    with Events(url) as events:
        assert events.next()["rows"][2][0] == f"2/{SCRIPT}"


def test_records_and_phases_appear_while_they_are_written(folder: Path) -> None:
    journal.save_plan(with_rule(PLAN, rounds=2), folder)
    with served(RunView(folder)) as url, Events(url) as events:
        assert "Not measured completely" in events.next()["step"]
        announce_run(folder)
        assert events.until(lambda view: view["state"] == "running")["phase"] == "start"
        now = own_progress("round 1: two", "load", time.time() + 1, time.time() + 60)
        write_progress(folder, replace(now, case_indexes=(0, 1), loaded=1))
        view = events.until(lambda view: view["phase"] == "load")
        assert view["active"] == [0, 1]
        assert [row[1] for row in view["rows"]] == ["wait", "load", "-"]
        journal.append(folder, window(0, 100.0), window(1, 50.0))
        view = events.until(lambda view: view["rows"][1][2] == "1")
        assert [row[3] for row in view["rows"]] == ["100.0", "50.00", "-"]
        journal.append(folder, window(0, 110.0, 2))
        view = events.until(lambda view: view["rows"][0][2] == "2")
        assert re.fullmatch(r"104\.9 \([\d.]+ to [\d.]+\)", view["rows"][0][3])


def test_half_a_record_waits_for_its_end_and_a_torn_one_is_skipped(folder: Path, url: str) -> None:
    line = to_line(window(0, 100.0)).encode()
    path = folder / journal.FILE
    with Events(url) as events:
        for part, rounds in (
            (b'{"schema": 4, "tr\n' + line[:500], None),
            (line[500:] + b"\n", "1"),
        ):
            with path.open("ab") as file:
                file.write(part)
            time.sleep(0.2)  # several readings
            if rounds is not None:
                assert events.until(lambda view: view["rows"][0][2] == "1")["state"] == "broken"
    assert path.read_bytes().count(b"\n") == 2


def test_a_folder_that_is_removed_is_one_line(folder: Path, url: str) -> None:
    with Events(url) as events:
        events.next()
        shutil.rmtree(folder)
        view = events.until(lambda view: "removed" in view["step"])
    assert view["step"] == f"The folder of {TITLE} was removed."
    assert answer(url)[0] == 200
    assert answer(url, "report")[0] == 404


def test_a_process_that_was_killed_is_reported(folder: Path, url: str) -> None:
    dead = RunProgress(2**22 - 1, 0.0, "round 1: x", "load", 0.0, 0.0)
    write_progress(folder, dead)
    with Events(url) as events:
        view = events.until(lambda view: "has ended" in view["step"])
    assert view["state"] == "broken"
    assert view["step"].endswith(f"continue with offload resume {TITLE}")


def test_a_finished_run_shows_its_report(folder: Path, url: str) -> None:
    finish(folder)
    with Events(url) as events:
        assert events.until(lambda view: view["has_report"])["state"] == "ended"
    status, headers, body = answer(url, "report")
    assert (status, body) == (200, b"<title>the report</title>")
    assert headers["content-security-policy"].startswith("sandbox allow-scripts;")
    status, headers, _ = answer(url)
    assert (status, headers["location"]) == (302, "report")


def test_a_report_of_older_records_is_not_shown(folder: Path, url: str) -> None:
    finish(folder)
    time.sleep(0.01)
    journal.append(folder, window(0, 100.0, 2))
    with Events(url) as events:
        view = events.until(lambda view: view["state"] == "ended")
    assert not view["has_report"]
    assert view["step"].endswith("format=html writes its report.")
    assert answer(url, "report")[0] == 404


class Halting(RunView):
    """A source whose reading, which is in the server's loop, halts once at `halt_at`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.reads, self.halt_at = 0, -1
        self.has_halted, self.may_go_on = threading.Event(), threading.Event()

    def read(self) -> View:
        self.reads += 1
        if self.reads == self.halt_at:
            self.has_halted.set()
            self.may_go_on.wait(TIMEOUT)
        return super().read()


def test_a_browser_that_leaves_before_it_is_answered_uses_no_stream(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server finds the end of its request and the end of its connection at the same time."""
    feeds: list[server.Feed] = []
    begin = server.Feed.__init__

    def init(self: server.Feed, source: Source) -> None:
        begin(self, source)
        feeds.append(self)

    monkeypatch.setattr(server.Feed, "__init__", init)
    source = Halting(folder)
    with served(source) as url:
        parts = urllib.parse.urlsplit(url)
        with socket.create_connection(("127.0.0.1", parts.port or 0), TIMEOUT) as browser:
            head = f"GET {parts.path}events HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            browser.sendall(head.encode())
            source.halt_at = source.reads + 5  # until then the server waits for the rest
            assert source.has_halted.wait(TIMEOUT)
            browser.sendall(b"\r\n")
        source.may_go_on.set()
        with Events(url) as stream:
            stream.next()
            assert wait_until(lambda: len(feeds[0]._behind) == 1)


class Large:
    """A source whose content is larger than the buffers of a connection."""

    title = "large"

    def __init__(self) -> None:
        self.number = 0
        self._rows = (("x" * 400,) * 10,) * 2000  # 8 MB

    def read(self) -> View:
        return View(RUNNING, str(self.number), (), self._rows)

    def report(self) -> bytes | None:
        return None


def test_a_browser_that_does_not_read_delays_no_other_and_gets_the_newest_content_later() -> None:
    source = Large()
    with served(source) as url, socket.socket() as deaf:
        parts = urllib.parse.urlsplit(url)
        deaf.settimeout(TIMEOUT)
        deaf.connect(("127.0.0.1", parts.port))
        deaf.sendall(f"GET {parts.path}events HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        with Events(url) as events:
            for number in range(1, 4):
                source.number = number
                events.until(lambda view, step=str(number): view["step"] == step)
        steps = []
        for line in deaf.makefile("rb"):
            if line.startswith(b"data: {"):
                steps.append(json.loads(line.removeprefix(b"data: "))["step"])
                if steps[-1] == "3":
                    break
        assert len(steps) == 2


def test_without_a_browser_it_ends_by_itself(folder: Path) -> None:
    with served(RunView(folder), idle_s=0.3) as url:
        with Events(url) as events:
            events.next()
            time.sleep(0.6)  # longer than it waits
            assert answer(url)[0] == 200
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                answer(url)
            except (ConnectionError, OSError):
                break
            time.sleep(0.05)
        else:
            pytest.fail("it still serves")


def test_a_value_that_cannot_be_computed_is_one_line(folder: Path) -> None:
    class Broken(RunView):
        def read(self):  # type: ignore[no-untyped-def]
            raise ValueError("odd\nvalue")

    with served(Broken(folder)) as url, Events(url) as events:
        view = events.next()
    assert (view["state"], view["rows"]) == ("broken", [])
    assert "cannot be read: ValueError: odd" in view["step"]


def test_the_plan_of_these_tests_is_read_back(folder: Path) -> None:
    assert json.loads((folder / "run.json").read_text())["rounds"] == PLAN.rule.counts[0]
    assert RunView(folder).read().rows[2][0] == f"2/{SCRIPT}"
