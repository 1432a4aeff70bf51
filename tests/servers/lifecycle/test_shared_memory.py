"""Without room for semaphores in /dev/shm, a process pool reports it; other servers start."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import FAB, free_port
from tests.installed import POOLS, require

pytestmark = pytest.mark.server
MOUNTS = {
    "full": ("mount -t tmpfs -o size=4k,nr_inodes=2 tmpfs /dev/shm; : > /dev/shm/a", "No space"),
    "read-only": ("mount -t tmpfs -o ro tmpfs /dev/shm", "Read-only file system"),
    "absent": ("mount -t tmpfs tmpfs /dev", "No such file"),
}
DEVICES = "exec 3<>/dev/null; {}; touch /dev/null; mount --bind /proc/self/fd/3 /dev/null"
TRY = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"]
CAN_MOUNT = (
    shutil.which("unshare") and not subprocess.run(TRY, capture_output=True, timeout=10).returncode
)
needs_mounts = pytest.mark.skipif(not CAN_MOUNT, reason="this user cannot mount file systems")


def under(state: str, *argv: str, timeout: float = 50) -> subprocess.CompletedProcess[str]:
    """Run a command with /dev/shm in a state of MOUNTS, in a mount namespace of its own."""
    script = f'set -e; {DEVICES.format(MOUNTS[state][0])}; exec "$@"'
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", *argv],
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def serving(name: str, port: int) -> tuple[str, ...]:
    return ("timeout", "-s", "TERM", "5", sys.executable, "-P", "-m", "offload.servers", name,
            "noop_sync", str(port))  # fmt: skip


@needs_mounts
@pytest.mark.parametrize("state", MOUNTS)
@pytest.mark.parametrize(
    "name", [each for each in ("processes", "pebble", "dask") if each in POOLS]
)
def test_a_pool_without_semaphores_is_one_line(name: str, state: str) -> None:
    require(name)
    said = under(state, *serving(name, free_port()))
    assert said.returncode == 3
    [line] = said.stderr.splitlines()
    reason = MOUNTS[state][1]
    assert line.startswith(f"error: the locks of the worker processes cannot be created ({reason}")
    assert "/dev/shm" in line and "use pipes or prefork" in line


@needs_mounts
@pytest.mark.parametrize("name", ["pipes", "prefork", "threads"])
@pytest.mark.parametrize("state", MOUNTS)
def test_a_server_without_semaphores_starts(name: str, state: str) -> None:
    said = under(state, *serving(name, free_port()))
    assert f"{name} serves noop_sync" in said.stderr
    assert "error" not in said.stderr


@needs_mounts
def test_the_probe_of_a_function_is_not_blamed_on_the_function(tmp_path: Path) -> None:
    said = under("full", "env", f"RESULTS={tmp_path}", FAB, "advise:time:ctime")
    assert said.returncode == 3
    assert "the locks of the worker processes cannot be created (No space" in said.stderr
    assert "fix the function" not in said.stderr


@needs_mounts
def test_a_comparison_has_a_row_that_says_it(tmp_path: Path) -> None:
    own = f"RESULTS={tmp_path}"
    said = under("full", "env", own, FAB, "measure:4/noop_sync,quick=yes")
    assert said.returncode == 5
    assert "not available: the locks of the worker processes cannot be created" in said.stdout
