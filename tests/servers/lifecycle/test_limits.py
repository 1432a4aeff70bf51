"""A limit of the process that is too low is named with its value, exit code 3, never the task."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.commands import FAB
from tests.servers.lifecycle.command_line import begin, wait_for_end
from tests.servers.lifecycle.test_shared_memory import needs_mounts

pytestmark = pytest.mark.server
MIB_300 = f"--as={300 << 20}"


@pytest.mark.parametrize(
    ("server", "limit", "workers", "expected"),
    [
        ("threads", MIB_300, 100, "raise RLIMIT_AS (300 MiB now, ulimit -v)"),
        ("pipes", MIB_300, 4, "raise RLIMIT_AS (300 MiB now, ulimit -v)"),
        ("processes", "--nofile=70", 60, "raise RLIMIT_NOFILE (70 now, ulimit -n)"),
        ("pipes", "--nofile=70", 60, "raise RLIMIT_NOFILE (70 now, ulimit -n)"),
    ],
)
@pytest.mark.usefixtures("own_temporary")
def test_workers_that_a_limit_prevents_are_a_lack_of_the_machine(
    server: str, limit: str, workers: int, expected: str
) -> None:
    process = begin(server, "noop_sync", "0", limit=limit, SERVER_WORKERS=str(workers))
    code, lines = wait_for_end(process)
    errors = [line for line in lines if line.startswith("error: ")]
    assert (code, len(errors)) == (3, 1), lines
    assert expected in errors[0]


@pytest.mark.parametrize("server", ["sync", "threads", "processes"])
def test_an_import_without_memory_names_the_limit(server: str, tmp_path: Path) -> None:
    (tmp_path / "big.py").write_text("TABLE = bytearray(400 << 20)\ndef work(): pass\n")
    process = begin(server, f"{tmp_path}/big.py:work", "0", limit=MIB_300, SERVER_WORKERS="1")
    code, lines = wait_for_end(process)
    assert code == 3, lines
    assert f"MemoryError ({tmp_path}/big.py:1): raise RLIMIT_AS (300 MiB now" in lines[0]


@pytest.mark.parametrize("code", ["def work(): return 'x'", "def work(): bytearray(400 << 20)"])
@pytest.mark.slow
def test_a_probe_without_memory_names_the_limit(code: str, tmp_path: Path) -> None:
    """Workers without memory for a thread may not report it: then they are not ready in time."""
    (tmp_path / "shop.py").write_text(code)
    words = ["prlimit", MIB_300, FAB, f"advise:{tmp_path}/shop.py:work"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode in (3, 5)
    assert "raise RLIMIT_AS (300 MiB now, ulimit -v)" in done.stderr.splitlines()[-1]


def test_a_module_that_leaves_no_descriptors_is_no_busy_port(tmp_path: Path) -> None:
    code = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))\ndef work(): pass\n"
    (tmp_path / "few.py").write_text(code)
    code, lines = wait_for_end(begin("threads", f"{tmp_path}/few.py:work", "0"))
    assert code == 3, lines
    assert "Too many open files: raise RLIMIT_NOFILE (8 now, ulimit -n)" in lines[0]


@needs_mounts
def test_workers_without_a_folder_for_temporary_files_name_it() -> None:
    mounts = "; ".join(f"mount -t tmpfs -o ro tmpfs {each}" for each in ("/tmp", "/var/tmp"))
    prefix = ["unshare", "-rm", "sh", "-c", f'set -e; {mounts}; cd /proc; exec "$@"', "sh"]
    process = begin("processes", "noop_sync", "0", prefix=prefix, TMPDIR="/proc")
    code, lines = wait_for_end(process)
    assert (code, len(lines)) == (3, 1), lines
    assert "No usable temporary directory" in lines[0]
    assert lines[0].endswith("free disk space, or set TMPDIR to a folder with free space")
