"""Load from several hosts by a real sshd on loopback, with its own keys and configuration."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from lab.experiments import private_sshd
from offload.engine import journal, server_reports
from offload.loads.hosts.agent import SHARE
from tests import ROOT
from tests.commands import FAB, CompletedCommand, free_port, served
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.server,
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.skipif(private_sshd.find() is None, reason=private_sshd.MISSING),
]
OFFLOAD = Path(sys.executable).parent
SYSTEM = ("/usr/bin", "/bin")


@dataclass(frozen=True)
class Hosts:
    """An sshd with the names a and b, the SSH configuration, and a server to load."""

    sshd: private_sshd.Sshd
    config: Path
    port: int

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self.port}/"

    def fab(self, *words: str) -> CompletedCommand:
        argv = [FAB, "-S", str(self.config), *words]
        return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120)


def shares() -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if SHARE in process.cmdline():
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[private_sshd.Sshd]:
    folder = tmp_path_factory.mktemp("sshd")
    with private_sshd.running(folder, "127.0.0.1", free_port(), [OFFLOAD, *SYSTEM]) as started:
        yield started


@pytest.fixture
def hosts(sshd: private_sshd.Sshd, tmp_path: Path) -> Iterator[Hosts]:
    config = tmp_path / "ssh_config"
    config.write_text(sshd.client_lines("a", "b"))
    port = free_port()
    with served(f"run_server:threads,sleep_shortest_sync,port={port}"):
        yield Hosts(sshd, config, port)
    assert wait_until(lambda: not shares(), 10)


def newest() -> dict[str, Any]:
    [path] = journal.RESULTS.glob(f"*/{journal.FILE}")
    return dict(json.loads(path.read_text().splitlines()[-1]))


@pytest.mark.parametrize("how", ["from=a+b", "-H before", "-H after"])
def test_a_load_from_two_hosts_agrees_with_the_server(hosts: Hosts, how: str) -> None:
    command = f"run_load_test:time=1,users=10,port={hosts.port}"
    words = {
        "from=a+b": [f"{command},from=a+b"],
        "-H before": ["-H", "a,b", command],
        "-H after": [command, "-H", "a,b"],
    }
    done = hosts.fab(*words[how])
    assert done.returncode == 0, done.stderr
    record = newest()
    load = record["load"]
    assert [(host["host"], host["users"]) for host in load["hosts"]] == [("a", 5), ("b", 5)]
    assert load["received"] * 0.999 <= load["served"] <= load["received"] * 1.001
    assert load["unanswered"] == 0
    for host in load["hosts"]:
        assert abs(host["ahead_s"]) <= host["bound_s"] < 0.5
    assert record["result"]["completed"] <= load["received"]
    assert "by the server itself" in done.stdout


def test_an_open_loop_from_two_hosts(hosts: Hosts) -> None:
    command = f"run_load_test:from=a+b,time=2,rate=100,keep_alive=yes,port={hosts.port}"
    done = hosts.fab(command)
    assert done.returncode == 0, done.stderr
    record = newest()
    assert record["result"]["offered"] == pytest.approx(200, abs=2)
    assert record["load"]["model"] == "open"


def test_a_host_that_is_killed_in_the_middle_is_flagged(hosts: Hosts) -> None:
    command = f"run_load_test:from=a+b,time=4,users=10,port={hosts.port}"
    argv = [FAB, "-S", str(hosts.config), command]
    with subprocess.Popen(
        argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert wait_until(lambda: (server_reports.count_completed(hosts.url) or 0) > 50, 60)
        os.kill(shares()[0].pid, signal.SIGKILL)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 5
    assert "the figures are not those of all hosts" in err
    record = newest()
    assert [flag["kind"] for flag in record["flags"]].count("hosts") == 1
    assert record["result"]["completed"] > 0
    assert record["problem"] is None


def test_ctrl_c_leaves_nothing_on_the_hosts(hosts: Hosts) -> None:
    command = f"run_load_test:from=a+b,time=60,port={hosts.port}"
    argv = [FAB, "-S", str(hosts.config), command]
    with subprocess.Popen(
        argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert wait_until(lambda: len(shares()) == 4, 60)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, "Traceback" in err) == (130, False), err
    assert wait_until(lambda: not shares(), 10)


def test_a_measurement_from_two_hosts(hosts: Hosts) -> None:
    command = "measure:threads/sleep_shortest_sync,from=a+b,bind=127.0.0.2,quick=yes,users=10"
    done = hosts.fab(command)
    assert done.returncode == 0, done.stderr
    record = newest()
    assert record["load"]["url"].startswith("http://127.0.0.2:")
    assert [host["host"] for host in record["load"]["hosts"]] == ["a", "b"]
    assert record["server"]["settings"]["bind"] == "127.0.0.2"


@pytest.fixture
def capacity(tmp_path: Path) -> str:
    """Return a search that ends with its first load, of 50/s: the task takes longer than 20 ms."""
    task = "import time\n\n\ndef nap():\n    time.sleep(0.05)\n    return b'rested'\n"
    (tmp_path / "naps.py").write_text(task)
    return f"capacity:threads/{tmp_path}/naps.py:nap,p99=20ms,from=a+b,bind=127.0.0.2"


def test_a_capacity_is_searched_from_two_hosts(hosts: Hosts, capacity: str) -> None:
    done = hosts.fab(capacity)
    assert done.returncode == 5
    assert "no capacity for p99 up to 20 ms and arrivals at equal intervals: at 50" in done.stdout
    record = newest()
    assert [(host["host"], host.get("problem")) for host in record["load"]["hosts"]] == [
        ("a", None),
        ("b", None),
    ]
    seconds = record["result"]["window_s"]
    assert record["result"]["offered"] == pytest.approx(50 * seconds, abs=2)


def test_a_search_is_resumed_with_the_ssh_configuration(hosts: Hosts, capacity: str) -> None:
    argv = [FAB, "-S", str(hosts.config), capacity]
    with subprocess.Popen(
        argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert wait_until(lambda: len(shares()) == 4, 60)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    done = hosts.fab("resume")
    assert done.returncode == 5
    assert "no capacity for p99 up to 20 ms and arrivals at equal intervals: at 50" in done.stdout


def test_an_unknown_host_key_is_refused(hosts: Hosts, tmp_path: Path) -> None:
    hosts.config.write_text(
        hosts.config.read_text().replace(str(hosts.sshd.known_hosts), str(tmp_path / "none"))
    )
    done = hosts.fab(f"run_load_test:from=a+b,time=1,port={hosts.port}")
    assert done.returncode == 3
    assert "its key is unknown" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_key_that_is_not_accepted_is_one_line(hosts: Hosts, tmp_path: Path) -> None:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")]
    subprocess.run(words, check=True, timeout=30)
    hosts.config.write_text(
        hosts.config.read_text().replace(str(hosts.sshd.key), str(tmp_path / "other"))
    )
    done = hosts.fab(f"run_load_test:from=a+b,time=1,port={hosts.port}")
    assert done.returncode == 3
    assert "accepts no key of yours" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_host_without_offload_is_one_line(hosts: Hosts, tmp_path: Path) -> None:
    with private_sshd.running(tmp_path / "sshd", "127.0.0.1", free_port(), SYSTEM) as bare:
        hosts.config.write_text(bare.client_lines("a", "b"))
        done = hosts.fab(f"run_load_test:from=a+b,time=1,port={hosts.port}")
    assert done.returncode == 3
    assert "has no command offload: install this version there" in done.stderr


def test_a_host_that_is_down_is_one_line(hosts: Hosts, tmp_path: Path) -> None:
    text = hosts.config.read_text()
    hosts.config.write_text(text.replace(str(hosts.sshd.port), str(free_port())))
    done = hosts.fab(f"run_load_test:from=a+b,time=1,port={hosts.port}")
    assert done.returncode == 3
    assert "host a: " in done.stderr
    assert done.stderr.count("error:") == 1
