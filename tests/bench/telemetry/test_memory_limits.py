"""The limits of a server's memory: control groups of both versions, and what the kernel killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from offload.engine.memory_limits import MemoryLimits
from offload.engine.record import MemoryLimit
from tests import ROOT
from tests.installed import require
from tests.waiting import wait_until

MIB = 1 << 20
OF_VERSION = {
    2: ("0::/a\n", "a", "memory.max", "memory.events", "anon {used}\nfile 99999999999\nshmem 0\n"),
    1: (
        "4:memory:/a\n",
        "memory/a",
        "memory.limit_in_bytes",
        "memory.oom_control",
        "cache 99999999999\ntotal_cache 99999999999\ntotal_rss {used}\n",
    ),
}


def read(folder: Path, version: int, limit: str, kills: int, used_mib: int = 300) -> MemoryLimit:
    """Return what is found if the kernel kills processes during the load."""
    own, group, name, events, stat = OF_VERSION[version]
    (folder / "own").write_text(own)
    path = folder / "root" / group
    path.mkdir(parents=True)
    (path / name).write_text(f"{limit}\n")
    (path / "memory.stat").write_text(stat.format(used=used_mib * MIB))
    (path / events).write_text("oom_kill_disable 0\noom_kill 3\n")
    limits = MemoryLimits(os.getpid(), folder / "own", folder / "root")
    limits.update([psutil.Process()])
    (path / events).write_text(f"oom_kill_disable 0\noom_kill {3 + kills}\n")
    return limits.found()


@pytest.mark.parametrize("version", [1, 2])
def test_the_use_of_a_control_group_is_without_cached_files(version: int, tmp_path: Path) -> None:
    found = read(tmp_path, version, str(512 * MIB), kills=0)
    assert (found.by, found.limit_mib, found.used_mib) == ("its control group", 512.0, 300.0)
    assert found.kills == 0


@pytest.mark.parametrize("version", [1, 2])
def test_what_the_kernel_killed_during_the_load_is_counted(version: int, tmp_path: Path) -> None:
    found = read(tmp_path, version, str(512 * MIB), kills=2)
    assert found.kills == 2
    assert (
        found.text
        == "the kernel killed 2 processes at the memory limit, 512 MiB of its control group"
    )


@pytest.mark.parametrize("limit", ["max", "9223372036854771712"])
def test_a_group_without_a_limit_limits_nothing(limit: str, tmp_path: Path) -> None:
    found = read(tmp_path, 2, limit, kills=2)
    assert (found.by, found.kills) == (None, None)


def test_a_process_without_limits_has_none() -> None:
    limits = MemoryLimits(os.getpid())
    limits.update([psutil.Process()])
    found = limits.found()
    assert found.by is None or (found.used_mib or 0.0) < (found.limit_mib or 0.0)
    assert found.swap_mib is not None


GROUPS = Path("/sys/fs/cgroup")
HUNGRY = """
KEPT = []
def app(environ, start_response):
    KEPT.append(b"x" * (8 << 20))
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""
MEASURE = """
import os, sys
from pathlib import Path
(Path(sys.argv[1]) / "cgroup.procs").write_text(str(os.getpid()))
from tests.rounds import measure_window
from offload.suites import Case
case = Case("gunicorn_gthread", "app=hungry:app", users=8, settings={}, path=sys.argv[2])
record = measure_window(case)
print(record.resources.memory_limit.text)
"""


@pytest.fixture
def small_group() -> Iterator[Path]:
    """Create a control group with 300 MiB; skip the test where that is not allowed."""
    parent = GROUPS / "memory" if (GROUPS / "memory").is_dir() else GROUPS
    is_first = parent.name == "memory"
    group = parent / f"offload-test-{os.getpid()}"
    name = "memory.limit_in_bytes" if is_first else "memory.max"
    try:
        group.mkdir()
        (group / name).write_text(str(300 * MIB))
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(f"no control group can be created: {error.strerror}")
    yield group
    assert wait_until(lambda: _is_removed(group)), "processes of the server were left in the group"


def _is_removed(group: Path) -> bool:
    for pid in (group / "cgroup.procs").read_text().split():
        with suppress(OSError):
            (group.parent / "cgroup.procs").write_text(pid)
    with suppress(OSError):  # busy while its processes end
        group.rmdir()
    return not group.exists()


@pytest.mark.server
@pytest.mark.timeout(120)
def test_workers_that_are_killed_at_the_limit_are_told(small_group: Path, tmp_path: Path) -> None:
    require("gunicorn_gthread")
    (tmp_path / "hungry.py").write_text(HUNGRY)
    argv = [sys.executable, "-c", MEASURE, str(small_group), str(tmp_path)]
    said = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert said.stdout.startswith("the kernel killed "), said
    assert said.stdout.endswith("at the memory limit, 300 MiB of its control group\n")
