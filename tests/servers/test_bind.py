"""bind= lets a server listen on another address, with a warning if others can reach it."""

from __future__ import annotations

import subprocess
from typing import Any

import psutil
import pytest

from offload.engine.workload import get
from offload.errors import UsageError
from offload.registry import addresses
from tests import ROOT
from tests.commands import FAB, free_port, served
from tests.installed import EVERY, PLAIN, one_of_each_kind
from tests.servers.lifecycle.command_line import begin, wait_for_end
from tests.servers.protection.test_host_check import respond
from tests.waiting import read_line

pytestmark = pytest.mark.server
ADDRESS = "127.0.0.2"  # of the loopback interface, too, but not the default


@pytest.mark.parametrize("name", one_of_each_kind(EVERY))
def test_a_server_listens_on_the_given_address_only(name: str, start: Any) -> None:
    running = start(name, "noop_sync", bind=ADDRESS)
    port = int(str(running.facts["port"]))
    assert running.url == f"http://{ADDRESS}:{port}/"
    assert get(running.url) == b"ok"  # its Host header is the address
    # another server of the tests may listen on the same port of 127.0.0.1
    listening = [
        found.laddr.ip
        for found in psutil.Process(running.process.pid).net_connections("tcp4")
        if found.status == psutil.CONN_LISTEN and found.laddr.port == port
    ]
    assert {*listening} == {ADDRESS}


def test_all_addresses_are_served_for_loopback_names(start: Any) -> None:
    running = start("loop", "noop_sync", bind=addresses.ALL)
    assert running.url.startswith("http://127.0.0.1:")
    assert respond(running, None) == (200, b"ok")
    assert respond(running, "10.0.0.5")[0] == 421
    assert respond(running, "0.0.0.0")[0] == 421


@pytest.mark.parametrize("name", PLAIN[:1])
def test_a_plain_server_refuses_it(name: str) -> None:
    code, lines = wait_for_end(begin(name, "noop_sync", "0", SERVER_BIND=ADDRESS))
    assert (code, len(lines)) == (2, 1)
    assert "a plain server listens on 127.0.0.1: leave bind out" in lines[0]


@pytest.mark.parametrize("name", ["loop", "sync", "prefork"])
def test_an_address_of_another_machine_is_one_line(name: str) -> None:
    code, lines = wait_for_end(begin(name, "noop_sync", "0", SERVER_BIND="192.0.2.1"))
    assert (code, len(lines)) == (3, 1)
    assert "bind=192.0.2.1 is no address of this machine" in lines[0]


def test_one_line_warns_of_an_address_that_others_can_reach() -> None:
    code, lines = wait_for_end(begin("loop", "noop_sync", "0", SERVER_BIND="x"))
    assert (code, len(lines)) == (2, 1)
    words = [FAB, f"run_server:2,noop_sync,bind={addresses.ALL},port={free_port()}"]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        try:
            warning, line = read_line(process.stderr), read_line(process.stderr)
        finally:
            process.kill()
            process.communicate(timeout=20)
    assert warning.startswith("warning: with bind=0.0.0.0 every machine that can reach this one")
    assert "serves" in line
    with served(f"run_server:2,noop_sync,bind={ADDRESS},port={free_port()}"):
        pass  # its first line is that it serves


def test_only_ipv4_addresses_are_accepted() -> None:
    for text in ("", "localhost", "::1", "10.0.0.256", "1.2.3", "10.0.0.1:80"):
        with pytest.raises(UsageError, match="is not an IPv4 address"):
            addresses.parse_bind(text)
    assert addresses.exposure_warning("127.0.0.2") is None


@pytest.mark.parametrize(
    ("address", "is_loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("::ffff:10.0.0.1", False),
        ("fe80::1%eth0", False),
    ],
)
def test_addresses_of_the_loopback_interface(address: str, is_loopback: bool) -> None:
    assert addresses.is_loopback(address) is is_loopback
