"""The options from=, -H, allow=, bind= and pin= are checked like others, in one line."""

from __future__ import annotations

import os

import pytest

from offload import resource_limits
from offload.cli.fab import commands_of
from offload.errors import MachineError, UsageError
from offload.suites import Placement
from offload.suites._case import parse_pin, ranges
from tests.commands import fab, fab_here

URL = "run_load_test:url=http://127.0.0.1:1/"
FOREIGN = "run_load_test:driver=builtin,url=http://192.0.2.1:1/"
MEASURE = "measure:3/noop_sync"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([f"{URL},from=a b"], "from='a b' is not a list of hosts"),
        ([f"{URL},from=a+"], "from='a+' is not a list of hosts"),
        ([f"{URL},from=-oProxyCommand=x"], "is not a list of hosts"),
        ([f"{URL},from=a;b"], "is not a list of hosts"),
        ([f"{URL},from=a+a"], "has a host twice"),
        ([f"{URL},from={'+'.join(map(str, range(65)))}"], "from= has 65 hosts"),
        ([f"{URL},from=a+b,driver=siege"], "siege cannot load from several hosts"),
        ([f"{URL},from=a+b,users=1"], "users=1: fewer than 2 load processes on 2 hosts"),
        ([f"{URL},from=a+b,users=3,load_processes=2"], "fewer than 4 load processes"),
        (["-H", "a,b", f"{URL},from=c"], "-H and from= exclude each other"),
        (["-H", "a,b", "quick"], "quick has no -H"),
        (["-H", "a,a", URL], "has a host twice"),
        ([URL, "-H"], "-H has no value"),
        ([FOREIGN], "if the machine is yours, add allow=192.0.2.1"),
        ([f"{FOREIGN},allow=192.0.2.2"], "not on this machine"),
        ([f"{FOREIGN},allow=http://a"], "allow='http://a' is not a list of host names"),
        (["run_load_test:allow=192.0.2.1"], "allow= needs url="),
        ([f"{URL},pin=yes"], "url= and pin= exclude each other"),
        ([f"{MEASURE},from=a+b"], "from= needs the address at which the hosts reach the server"),
        ([f"{MEASURE},from=a+b,bind=0.0.0.0"], "bind=0.0.0.0 is not an address for from="),
        ([f"{MEASURE},bind=localhost"], "bind='localhost' is not an IPv4 address"),
        ([f"{MEASURE},from=a+b,bind=127.0.0.1,pin=yes"], "from= and pin= exclude each other"),
        (["capacity:3/noop_sync,p99=50ms,from=a"], "from= needs the address"),
        (["run_server:3,noop_sync,bind=::1"], "bind='::1' is not an IPv4 address"),
        (["run_server:3,noop_sync,bind=10.0.0.256"], "is not an IPv4 address"),
    ],
)
def test_a_wrong_option_is_one_line(words: list[str], message: str) -> None:
    refused = fab_here(*words)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    assert message in refused.stderr


def test_an_address_of_another_machine_is_one_line() -> None:
    refused = fab_here("run_server:3,noop_sync,bind=192.0.2.1")
    assert (refused.returncode, refused.stderr.count("\n")) == (3, 1)
    assert "bind=192.0.2.1 is no address of this machine" in refused.stderr


def test_an_address_may_be_allowed() -> None:
    refused = fab_here(f"{FOREIGN},allow=192.0.2.1+shop.test,from=a+b,users=1")
    assert "fewer than 2" in refused.stderr  # the check after that of the address


def test_an_ipv6_address_may_be_allowed_as_it_is_written_in_a_url() -> None:
    foreign = "run_load_test:driver=builtin,url=http://[2001:db8::1]:1/"
    refused = fab_here(foreign)
    assert refused.stderr.strip().endswith("if the machine is yours, add allow=[2001:db8::1]")
    refused = fab_here(f"{foreign},allow=[2001:DB8::1],from=a+b,users=1")
    assert "fewer than 2" in refused.stderr  # the check after that of the address


def test_hosts_of_fabric_are_those_of_from() -> None:
    assert [*commands_of(["measure", "-Ha,b"])] == [["measure", "--from=a+b"]]
    assert [*commands_of(["measure", "-H", "a,b"])] == [["measure", "--from=a+b"]]
    assert [*commands_of(["measure", "--hosts=c"], "a")] == [["measure", "--from=c"]]
    assert [*commands_of(["measure:x"], "a,b")] == [["measure", "--case=x", "--from=a+b"]]
    assert [*commands_of(["measure:x"])] == [["measure", "--case=x"]]


@pytest.mark.server
def test_nothing_of_fabric_connects_without_hosts() -> None:
    done = fab("-H", "a,b", "list")
    assert (done.returncode, "list has no -H" in done.stderr) == (2, True)


def test_pin_gives_the_last_cpus_to_the_load() -> None:
    assert parse_pin("yes", (0, 1)) == Placement((), (0,), (1,))
    assert parse_pin("yes", (0, 2, 4, 5), 2) == Placement((), (0, 2), (4, 5))
    assert parse_pin("yes", (0, 1), 8) == Placement((), (0,), (1,))
    assert parse_pin("0-2+5/3", (0, 1, 2, 3, 5)) == Placement((), (0, 1, 2, 5), (3,))
    assert parse_pin("0-2+5/3", (0, 1, 2, 3, 5)).pin == "0-2+5/3"
    assert ranges((7, 1, 2, 3)) == "1-3+7"


@pytest.mark.parametrize("text", ["no", "0", "0/", "/1", "a/b", "0-/1", "1-0/2", "0/99999", "²/1"])
def test_a_wrong_division_of_cpus_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="pin="):
        parse_pin(text, (0, 1))


def test_cpus_must_be_disjoint_and_allowed() -> None:
    with pytest.raises(UsageError, match="CPU 1 in both parts"):
        parse_pin("0-1/1", (0, 1))
    with pytest.raises(UsageError, match="may not use CPU 7"):
        parse_pin("0/7", (0, 1))


def test_pin_needs_two_cpus() -> None:
    with pytest.raises(MachineError, match="needs two CPUs"):
        parse_pin("yes", (3,))


@pytest.mark.skipif(len(resource_limits.cpu_numbers()) < 2, reason="needs two CPUs")
def test_pin_is_refused_in_one_line_on_one_cpu() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        refused = fab_here(f"{MEASURE},pin=yes")
    finally:
        os.sched_setaffinity(0, before)
    assert (refused.returncode, refused.stderr.count("\n")) == (3, 1)
    assert "pin= needs two CPUs, and this process may use 1" in refused.stderr
