"""A server that is stopped leaves no process, also if the parent of some has ended before."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests import ROOT
from tests.applications.seeded import FOLDER
from tests.installed import lacks, require

# In a process of its own, because the one of the tests may already adopt orphans.
PROGRAM = """
import os, signal, sys, time, urllib.request
from offload.engine import server
from offload.engine.processes import ProcessTree
from offload.suites import Case
running = server.start(Case("gunicorn_asgi", "app=starlette_numpy:app", 8, path=sys.argv[1]), {})
urllib.request.urlopen(running.url.rstrip("/") + "/quote/7", timeout=20).read()
pids = [process.pid for process in ProcessTree(running.process.pid).members]
parents = {int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1]) for pid in pids}
for pid in sorted(parents & {*pids}):
    os.kill(pid, signal.SIGKILL)
time.sleep(0.2)
server.stop(running)
print(*pids)
"""


@pytest.mark.server
@pytest.mark.timeout(120)
@pytest.mark.skipif(sys.platform != "linux", reason="other systems adopt no orphans")
def test_processes_of_a_pool_whose_worker_was_killed_end_with_the_server() -> None:
    require("gunicorn_asgi")
    for package in ("numpy", "starlette"):
        pytest.importorskip(package, reason=lacks(package))
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(FOLDER)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    pids = ran.stdout.split()
    assert len(pids) > 4, "the pool has four processes, beside the server's own"
    assert [pid for pid in pids if os.path.exists(f"/proc/{pid}")] == []  # noqa: PTH110
