"""Real agents send one load together; one that fails is flagged, and none is left running."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from offload.errors import MachineError
from offload.loads import Arrivals, Load, Window
from offload.loads.hosts import MergedLoad, measure_on, merge, remote_host, whole_load
from offload.loads.hosts.agent import SILENCE
from offload.loads.hosts.remote_host import LostHostError, RemoteHost
from tests import ROOT
from tests.loads.conftest import Server
from tests.loads.hosts.agents import AGENT, PipeChannel, agents
from tests.waiting import is_running, wait_until

pytestmark = pytest.mark.server
LOAD = Load("", users=5, seconds=0.5, keep_alive=True, timeout=5.0)
SHIFTER = ROOT / "lab" / "experiments" / "time_namespace.py"


def run(hosts: list[RemoteHost], load: Load) -> MergedLoad:
    together = whole_load(load, len(hosts))
    times, results = measure_on(hosts, together)
    return merge(together, times, results)


def test_the_server_gets_every_request_that_the_hosts_count(server: Server) -> None:
    before = server.requests["/"]
    with agents("a", "b") as (hosts, _):
        found = run(hosts, replace(LOAD, url=server.url("/"), processes=2))
    figures = found.result.figures
    assert found.received == server.requests["/"] - before > 0
    assert (found.unanswered, found.result.problem) == (0, None)
    assert [run.users for run in found.hosts] == [3, 2]
    assert figures.window_s == 0.5
    assert 0 < (figures.completed or 0) <= found.received
    assert {flag.kind for flag in found.result.notes} <= {"start", "clock"}  # a busy machine


@pytest.mark.slow
def test_a_number_of_requests_is_divided(server: Server) -> None:
    before = server.requests["/"]
    load = replace(LOAD, url=server.url("/"), seconds=None, requests=101)
    with agents("a", "b") as (hosts, _):
        found = run(hosts, load)
    assert found.result.figures.completed == server.requests["/"] - before == 101
    assert [run.completed for run in found.hosts] == [51, 50]


def test_an_open_loop_of_two_hosts_has_one_schedule(server: Server) -> None:
    load = replace(LOAD, url=server.url("/"), arrivals=Arrivals(200.0), window=Window(warm=0.1))
    together, before = whole_load(load, 2), server.requests["/"]
    with agents("a", "b") as (hosts, _):
        times, results = measure_on(hosts, together)
    due = sorted(
        remote_host.clock_between(result.before, result.after).reference(at) - times.start
        for result in results
        for part in result.samples or ()
        for at in part.due
    )
    bound = sum(
        result.before.bound_s + (result.after or result.before).bound_s for result in results
    )
    for number, at in enumerate(due[:100]):
        assert at == pytest.approx(number / 200, abs=bound + 1e-6)
    merged = merge(together, times, results)
    assert merged.result.figures.offered == pytest.approx(100, abs=2)
    assert (merged.received, merged.unanswered) == (server.requests["/"] - before, 0)


@pytest.mark.slow
def test_both_start_at_the_agreed_time_by_the_clock_of_the_machine(server: Server) -> None:
    with agents("a", "b") as (hosts, _):
        found = run(hosts, replace(LOAD, url=server.url("/")))
    for each in found.hosts:
        assert each.ahead_s is not None
        assert each.bound_s is not None
        assert abs(each.ahead_s) <= each.bound_s  # the same clock
        assert each.late_s is not None
        assert -each.bound_s <= each.late_s < 1.0
        assert each.is_here


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="time namespaces need root")
def test_a_clock_that_is_300_ms_ahead_is_corrected(server: Server) -> None:
    shifted = (sys.executable, "-P", str(SHIFTER), "300", *AGENT)
    with agents("a", "b", words=[AGENT, shifted]) as (hosts, _):
        found = run(hosts, replace(LOAD, url=server.url("/")))
    for each, expected in zip(found.hosts, (0.0, 0.3), strict=True):
        assert each.ahead_s == pytest.approx(expected, abs=each.bound_s)
        assert (each.bound_s or 1.0) < 0.1
        assert abs(each.late_s or 0.0) < 0.1
        assert (each.completed or 0) > 0


def kill(channel: PipeChannel, number: int, is_share: bool) -> threading.Thread:
    """Send a signal to an agent, or to its share, as soon as its load has children."""

    def wait_and_kill() -> None:
        assert wait_until(lambda: (share := channel.share()) and share.children())
        share = channel.share()
        assert share is not None
        os.kill(share.pid if is_share else channel.process.pid, number)

    thread = threading.Thread(target=wait_and_kill)
    thread.start()
    return thread


@pytest.mark.parametrize("is_share", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_host_that_dies_in_the_middle_is_flagged_and_the_other_is_kept(
    server: Server, is_share: bool
) -> None:
    class Doomed(RemoteHost):
        def start(self, times: object) -> None:
            super().start(times)  # type: ignore[arg-type]
            kill(channels[1], signal.SIGKILL, is_share).join(30)

    with agents("a", "b") as (hosts, channels):
        hosts[1] = Doomed("b", channels[1])
        found = run(hosts, replace(LOAD, url=server.url("/"), seconds=1.0))
    [flag] = [flag for flag in found.result.notes if flag.kind == "hosts"]
    assert "host b failed" in flag.message
    assert ("signal 9" in flag.message) is is_share
    assert found.hosts[0].problem is None
    assert (found.result.figures.completed or 0) > 0
    assert found.result.problem is None
    assert found.received is None


@pytest.mark.slow
def test_a_host_that_hangs_is_flagged(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_host, "SILENCE_S", 2.0)

    class Hanging(RemoteHost):
        def start(self, times: object) -> None:
            super().start(times)  # type: ignore[arg-type]
            os.kill(channels[1].process.pid, signal.SIGSTOP)

    with agents("a", "b") as (hosts, channels):
        hosts[1] = Hanging("b", channels[1])
        try:
            found = run(hosts, replace(LOAD, url=server.url("/"), seconds=1.0))
        finally:
            os.kill(channels[1].process.pid, signal.SIGCONT)
    assert found.hosts[1].problem == "it did not respond for 2 s"
    assert (found.hosts[0].completed or 0) > 0


JUMPING = """
import itertools, time
from offload.loads.hosts import agent

real, jumps = time.monotonic, itertools.count()
time.monotonic = lambda: real() + next(jumps)
agent.main()
"""


def test_a_clock_that_jumps_while_it_is_measured_is_no_offset(server: Server) -> None:
    with agents("a", words=[(sys.executable, "-P", "-c", JUMPING)]) as ([host], _):
        host.read_facts()
        with pytest.raises(LostHostError, match="its clock jumped"):
            host.measure_clock()


STALLING = """
from offload.loads.hosts import agent, protocol

def stall(self, running):
    self._send(protocol.READY)
    self._send(protocol.DATA, b"the first samples")

agent.Agent._forward = stall
agent.main()
"""


@pytest.mark.slow
def test_a_host_whose_samples_stop_is_lost(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its agent still responds, as if only the process that sends the samples were stopped."""
    with agents("a", words=[(sys.executable, "-P", "-c", STALLING)]) as ([host], _):
        host.read_facts()
        host.prepare(replace(LOAD, url=server.url("/")), 0, 1)
        monkeypatch.setattr(remote_host, "STEP_S", 1.0)
        with pytest.raises(LostHostError, match="did not end in time"):
            host.samples(time.monotonic() + 10)


def test_an_agent_and_its_load_end_with_the_connection(server: Server) -> None:
    with agents("a") as ([host], [channel]):
        host.read_facts()
        host.prepare(replace(LOAD, url=server.url("/"), seconds=60.0), 0, 1)
        share = channel.share()
        assert share is not None
        started = [psutil.Process(channel.process.pid), share, *share.children()]
        assert len(started) == 3
        channel.close()
        assert wait_until(lambda: not any(map(is_running, started)), 10)


@pytest.mark.slow
def test_a_load_ends_with_its_agent_that_is_killed(server: Server) -> None:
    with agents("a") as ([host], [channel]):
        host.read_facts()
        host.prepare(replace(LOAD, url=server.url("/"), seconds=60.0, processes=2), 0, 2)
        share = channel.share()
        assert share is not None
        started = [share, *share.children()]
        channel.process.kill()
        assert wait_until(lambda: not any(map(is_running, started)), 10)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_an_agent_that_hears_nothing_ends(server: Server) -> None:
    with agents("a") as ([host], [channel]):
        host.read_facts()
        host.prepare(replace(LOAD, url=server.url("/"), seconds=60.0), 0, 1)
        share = channel.share()
        assert share is not None
        assert wait_until(lambda: channel.process.poll() is not None, 3 * SILENCE)
        assert wait_until(lambda: not is_running(share), 10)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import sys; print('welcome'); sys.exit(1)", "printed 'welcome'"),
        ("import sys; sys.exit('sh: 1: exec: offload: not found')", "has no command offload"),
        (
            "import sys; from offload.loads.hosts import protocol; "
            "sys.stdout.buffer.write(b'hi\\n' + protocol.MAGIC + "
            'protocol.pack_frame(protocol.HELLO, b\'{"protocol": 1, "version": "0.0.1"}\'))',
            "has offload 0.0.1, this is",
        ),
        (
            "import sys; from offload.loads.hosts import protocol; "
            "sys.stdout.buffer.write(protocol.MAGIC + protocol.pack_frame(protocol.HELLO, b'[]'))",
            "not JSON",
        ),
    ],
)
def test_a_host_without_this_version_is_one_line(server: Server, script: str, message: str) -> None:
    words = [(sys.executable, "-c", script)]
    with agents("a", words=words) as (hosts, _), pytest.raises(MachineError) as failed:
        run(hosts, replace(LOAD, url=server.url("/")))
    assert message in str(failed.value)
    assert "\n" not in str(failed.value)
    assert "host a" in str(failed.value)


def test_a_share_that_cannot_run_reports_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPSTREAM_CA", str(tmp_path / "missing.pem"))
    load = replace(LOAD, url="https://127.0.0.1:1/")
    with agents("a") as ([host], _), pytest.raises(MachineError, match="load processes did not"):
        run([host], load)
