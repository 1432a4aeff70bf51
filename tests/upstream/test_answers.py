"""The responses of the upstream, with either kind of server, and which clients it serves."""

from __future__ import annotations

import contextlib
import random
import shutil
import socket
import ssl
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import pytest
import requests

from offload.upstream import Upstream, hold, nginx
from offload.upstream.application import FAILURE_RATE, LIMITED_BURST, SEED, TYPES, WWW, Limit
from tests.upstream.observed import NO_NGINX, served
from tests.waiting import read_line

LATENCY = 0.001  # makes any upstream embedded
KINDS = [
    pytest.param("embedded"),
    pytest.param("nginx", marks=pytest.mark.skipif(nginx.find() is None, reason=NO_NGINX)),
]


pytestmark = pytest.mark.server


@pytest.fixture(scope="module", params=KINDS)
def each(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Upstream]:
    """An upstream of each kind, which all tests share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UPSTREAM_FOLDER", str(tmp_path_factory.mktemp("upstream")))
        with hold(LATENCY if request.param == "embedded" else None) as holding:
            assert request.param == holding.upstream.kind
            yield holding.upstream


@pytest.fixture(params=KINDS)
def untried(request: pytest.FixtureRequest) -> Iterator[Upstream]:
    """An upstream of each kind that nobody has asked yet."""
    with hold(LATENCY if request.param == "embedded" else None) as holding:
        assert request.param == holding.upstream.kind
        yield holding.upstream


def _get(upstream: Upstream, path: str, secure: bool = False) -> requests.Response:
    url = upstream.https if secure else upstream.http
    return requests.get(f"{url}/{path}", verify=upstream.ca, timeout=10)


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("page", TYPES)
def test_page_is_the_file(each: Upstream, page: str, secure: bool) -> None:
    response = _get(each, page, secure)
    assert response.status_code == 200
    assert response.content == (WWW / page).read_bytes()
    assert response.headers["Content-Type"].startswith(TYPES[page])


def test_page_is_5_kb_and_feed_120_kb() -> None:
    assert (WWW / "page.html").stat().st_size == 5120
    assert 115_000 < (WWW / "feed.xml").stat().st_size < 121_000


def test_wait_answers_after_the_seconds_that_are_requested(each: Upstream) -> None:
    began = time.monotonic()
    response = _get(each, "wait?seconds=0.2")
    assert (response.status_code, response.content) == (200, b"waited\n")
    assert 0.2 <= time.monotonic() - began < 0.6


def test_limited_sends_a_burst_and_then_100_responses_per_second(untried: Upstream) -> None:
    def ended(_: int) -> float:
        response = _get(untried, "limited?page=page.html")
        assert response.content == (WWW / "page.html").read_bytes()
        return time.monotonic()

    began = time.monotonic()
    with ThreadPoolExecutor(10) as threads:
        took = max(threads.map(ended, range(110))) - began
    assert 0.9 < took < 6  # 10 at once, and 100 in a second


def test_the_bucket_of_limited_fills_in_a_pause() -> None:
    limit = Limit()
    burst = [limit.take(100.0) for _ in range(LIMITED_BURST)]
    assert burst == pytest.approx([0.0] * LIMITED_BURST)
    assert [limit.take(100.0), limit.take(100.0)] == pytest.approx([0.01, 0.02])
    assert limit.take(100.5) == 0.0


@pytest.mark.parametrize("seconds", ["x", "-1", "nan", "61"])
def test_a_wait_that_is_none_is_refused(each: Upstream, seconds: str) -> None:
    response = _get(each, f"wait?seconds={seconds}")
    assert (response.status_code, response.content.count(b"\n")) == (400, 1)


def test_half_of_the_flaky_tries_fail_in_the_seeded_order(untried: Upstream) -> None:
    chance = random.Random(SEED)
    expected = [500 if chance.random() < FAILURE_RATE else 200 for _ in range(60)]
    found = [_get(untried, "flaky", secure=bool(n % 2)) for n in range(60)]
    assert expected == [response.status_code for response in found]
    assert 20 <= expected.count(500) <= 40
    bodies = {(WWW / "page.html").read_bytes(), b"this try fails\n"}
    assert bodies == {response.content for response in found}


def test_status_counts_flaky_tries(untried: Upstream) -> None:
    failed = [_get(untried, "flaky").status_code for _ in range(5)].count(500)
    expected = {"flaky_tries": 5, "flaky_failures": failed}
    for secure in (False, True):
        status = _get(untried, "status", secure=secure).json()
        assert {name: status[name] for name in expected} == expected


def test_connection_is_kept(each: Upstream) -> None:
    connection = HTTPConnection(each.http.removeprefix("http://"), timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/page.html")
        connection.getresponse().read()
        kept = connection.sock
        connection.request("GET", "/feed.xml")
        assert connection.getresponse().status == 200
        assert kept is connection.sock


def test_https_is_refused_without_the_ca(each: Upstream) -> None:
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(f"{each.https}/page.html", timeout=10)


def test_wrong_host_is_refused(each: Upstream) -> None:
    tls = ssl.create_default_context(cafile=each.ca)
    address = ("127.0.0.1", int(each.https.rpartition(":")[2]))
    refused = pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch")
    with socket.create_connection(address, timeout=10) as plain, refused:
        tls.wrap_socket(plain, server_hostname="wrong.example")


def test_localhost_is_a_right_host(each: Upstream) -> None:
    port = each.https.rpartition(":")[2]
    url = f"https://localhost:{port}/page.html"
    assert requests.get(url, verify=each.ca, timeout=10).status_code == 200


def test_only_this_machine_is_listened_to(each: Upstream) -> None:
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.2", int(each.http.rpartition(":")[2]))) != 0


def test_every_page_waits_the_latency() -> None:
    with hold(0.2) as holding:
        assert (holding.upstream.kind, holding.upstream.latency_s) == ("embedded", 0.2)
        start = time.monotonic()
        _get(holding.upstream, "page.html")
        assert 0.2 <= time.monotonic() - start < 0.6 + 0.2


def test_nginx_that_does_not_start_is_reported_and_replaced(tmp_path: Path) -> None:
    (tmp_path / "nginx").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "nginx").chmod(0o755)
    with served(PATH=str(tmp_path)) as (upstream, process):
        assert upstream.kind == "embedded"
        assert process.stderr is not None
        assert read_line(process.stderr).startswith("nginx did not start: see ")
        assert _get(upstream, "page.html", secure=True).status_code == 200


def test_environment_keeps_proxies_out(each: Upstream) -> None:
    environment = each.environment()
    assert environment["UPSTREAM_HTTPS"] == each.https
    assert environment["NO_PROXY"] == "127.0.0.1,localhost"
    assert all(isinstance(value, str) for value in environment.values())


def test_private_files_are_for_their_owner_alone(folder: Path) -> None:
    with hold():
        pass
    assert stat.S_IMODE((folder / "server.key").stat().st_mode) & 0o077 == 0
    assert [p for p in folder.iterdir() if "ca" in p.name and p.suffix == ".key"] == []


def test_certificate_is_used_again_while_valid(folder: Path) -> None:
    with hold():
        first = (folder / "server.pem").read_bytes()
    with hold():
        assert first == (folder / "server.pem").read_bytes()


@pytest.mark.parametrize("spoilt", ["ca.pem", "server.pem", "server.key"])
def test_certificate_that_does_not_match_is_made_anew(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoilt: str
) -> None:
    with hold():
        pass
    monkeypatch.setenv("UPSTREAM_FOLDER", str(tmp_path / "other"))
    with hold():
        shutil.copy(tmp_path / "other" / spoilt, folder / spoilt)
    monkeypatch.setenv("UPSTREAM_FOLDER", str(folder))
    with hold() as holding:
        assert _get(holding.upstream, "page.html", secure=True).status_code == 200
