"""Throttling by a CPU quota is read from control groups of both versions, nested ones too."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from offload import resource_limits
from offload.engine.processes import ResourceSampler
from offload.engine.record import Throttling
from offload.resource_limits import QuotaCounts

V1 = "nr_periods {} \nnr_throttled {}\nthrottled_time {}\nnr_bursts 0\nburst_time 0\n"
V2 = (
    "usage_usec 100\nuser_usec 50\nsystem_usec 50\nnr_periods {}\nnr_throttled {}\n"
    "throttled_usec {}\nnr_bursts 0\nburst_usec 0\n"
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that stands for /sys/fs/cgroup."""
    monkeypatch.setattr(resource_limits, "ROOT", tmp_path / "cgroup")
    monkeypatch.setattr(resource_limits, "PROC", tmp_path / "proc")
    return tmp_path / "cgroup"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def put_in(root: Path, groups: str, pid: int = 7) -> None:
    write(root.parent / "proc" / str(pid) / "cgroup", groups)


def write_v1(folder: Path, quota: int, *counts: int) -> None:
    write(folder / "cpu.cfs_quota_us", f"{quota}\n")
    write(folder / "cpu.cfs_period_us", "100000\n")
    write(folder / "cpu.stat", V1.format(*counts))


def write_v2(folder: Path, quota: str, *counts: int) -> None:
    write(folder / "cpu.max", f"{quota} 100000\n")
    write(folder / "cpu.stat", V2.format(*counts))


def test_version_1_counts_in_ns(root: Path) -> None:
    put_in(root, "4:cpu,cpuacct:/docker/1\n1:name=systemd:/\n0::/\n")
    write_v1(root / "cpu,cpuacct" / "docker" / "1", 100_000, 102, 86, 9_500_000_000)
    (root / "cpu").symlink_to("cpu,cpuacct")
    [found] = resource_limits.quota_counts(7).values()
    assert found == QuotaCounts(1.0, 102, 86, 9.5)


def test_version_2_counts_in_us_and_parents_count_for_themselves(root: Path) -> None:
    put_in(root, "0::/pod/worker\n")
    write_v2(root / "pod", "150000", 40, 20, 3_000_000)
    write_v2(root / "pod" / "worker", "200000", 40, 0, 0)
    found = resource_limits.quota_counts(7)
    assert list(found.values()) == [QuotaCounts(2.0, 40, 0, 0.0), QuotaCounts(1.5, 40, 20, 3.0)]
    write_v2(root / "pod" / "worker", "max", 0, 0, 0)  # no quota of its own
    assert list(resource_limits.quota_counts(7)) == [str(root / "pod")]


def test_without_a_quota_a_group_or_a_process_there_are_no_counts(root: Path) -> None:
    put_in(root, "4:cpu:/a\n0::/\n")
    write_v1(root / "cpu" / "a", -1, 0, 0, 0)
    assert resource_limits.quota_counts(7) == {}
    write_v1(root / "cpu" / "a", 50_000, 0, 0, 0)
    (root / "cpu" / "a" / "cpu.stat").unlink()
    assert resource_limits.quota_counts(7) == {}
    assert resource_limits.quota_counts(8) == {}


def test_the_group_that_stopped_the_server_in_the_window_is_in_its_record(root: Path) -> None:
    put_in(root, "0::/pod/worker\n", os.getpid())
    outer, inner = root / "pod", root / "pod" / "worker"
    write_v2(outer, "150000", 1000, 900, 9_000_000)  # before the window
    write_v2(inner, "50000", 40, 1, 1_000)
    with ResourceSampler(os.getpid()) as sampler:
        time.sleep(1.0)
        began = time.monotonic()
        write_v2(inner, "50000", 60, 18, 901_000)
        write_v2(outer, "150000", 1020, 901, 9_000_001)
        time.sleep(0.3)
    found = sampler.between(None, None).throttling
    assert found == Throttling(0.5, 20, 17, 0.9)
    assert found.share == 0.85
    assert sampler.between(began - 0.95, began - 0.7).throttling.throttled == 0


def test_a_server_without_a_quota_has_none_in_its_record(root: Path) -> None:
    put_in(root, "0::/\n", os.getpid())
    with ResourceSampler(os.getpid()) as sampler:
        pass
    assert sampler.between(None, None).throttling == Throttling()


@contextmanager
def limited(cpus: float) -> Iterator[Path]:
    """Create a control group with a quota in the kernel; skip if that is not allowed."""
    v1, v2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    is_v2 = not v1.exists()
    folder = (v2 if is_v2 else v1) / f"offload-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be created here: {error}")
    try:
        quota = f"{int(cpus * 100_000)}"
        with suppress(OSError):
            name, text = ("cpu.max", f"{quota} 100000") if is_v2 else ("cpu.cfs_quota_us", quota)
            (folder / name).write_text(text)
        if not (folder / name).exists():
            pytest.skip("control groups have no CPU controller here")
        yield folder
    finally:
        folder.rmdir()


@pytest.mark.server
def test_a_process_that_the_kernel_stops_is_seen() -> None:
    with limited(0.1) as folder:
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
            try:
                (folder / "cgroup.procs").write_text(str(process.pid))
                with ResourceSampler(process.pid) as sampler:
                    time.sleep(1.5)
            finally:
                process.kill()
                process.wait(10)
        found = sampler.between(None, None).throttling
        assert (found.quota, found.periods is not None) == (0.1, True)
        assert found.throttled is not None and found.throttled >= 3
        assert found.stopped_s is not None and found.stopped_s > 0.2
