"""The threads of BLAS are told from those of Python, and their share of the CPU time is known."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from offload.causes import diagnosis
from offload.causes.machine import BLAS_THREADS
from offload.suites import Case, Request
from tests import ROOT
from tests.applications.seeded import FOLDER
from tests.installed import lacks, require
from tests.rounds import measure_window

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc"),
]
PROGRAM = """
import json, sys, time
from threading import Thread
from offload.serving.metrics import blas_threads
began = time.monotonic()
blas_threads.since(began)
import numpy
matrix = numpy.ones((500, 500))
def work():
    ends = time.monotonic() + 0.4
    while time.monotonic() < ends:
        if sys.argv[1] == "blas":
            matrix @ matrix
time.sleep(0.2)  # threads of the library spin after their start
blas_threads.since(began)
start = time.monotonic()
threads = [Thread(target=work) for _ in range(2)]
for each in threads: each.start()
for each in threads: each.join()
print(json.dumps(blas_threads.since(start)))
"""


def reported(what: str, threads: int) -> dict[str, object]:
    pytest.importorskip("numpy", reason="numpy is not installed")
    environment = {"OPENBLAS_NUM_THREADS": str(threads), "PATH": "/usr/bin", "PYTHONPATH": "src"}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, what],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    found: dict[str, object] = json.loads(ran.stdout)
    if found["library"] != "OpenBLAS":
        pytest.skip("numpy has another BLAS here")
    return found


def test_threads_of_a_product_of_matrices_are_counted() -> None:
    if (cores := len(os.sched_getaffinity(0))) < 2:
        pytest.skip("one core: OpenBLAS starts no threads")
    found = reported("blas", 3)  # at most as many as there are cores, with the thread that calls
    assert found["variable"] == "OPENBLAS_NUM_THREADS"
    assert found["threads"] == min(3, cores) - 1
    assert isinstance(found["share"], float)
    assert found["share"] > 0.1


def test_one_thread_or_other_work_than_blas_is_none() -> None:
    assert reported("blas", 1)["threads"] == 0
    other = reported("python", 3)
    assert isinstance(other["share"], float)
    assert other["share"] < 0.1


def test_without_such_a_library_nothing_is_known() -> None:
    code = "from offload.serving.metrics import blas_threads; print(blas_threads.since(0.0))"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=50
    )
    assert ran.stdout == "None\n", ran.stderr


@pytest.mark.timeout(120)
def test_threads_in_the_processes_of_a_pool_are_counted_while_they_run() -> None:
    require("uvicorn_httptools")
    for package in ("numpy", "starlette"):
        pytest.importorskip(package, reason=lacks(package))
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("OpenBLAS starts no thread on one CPU")
    work, request = "app=starlette_numpy:app", Request("/quote/7")
    case = Case("uvicorn_httptools", work, 8, path=str(FOLDER), request=request)
    record = measure_window(case)
    assert record.problem is None, record.problem
    found = record.application.threads.blas
    if found.library != "OpenBLAS":
        pytest.skip("numpy has another BLAS here")
    assert found.processes == 4 and (found.threads or 0) >= 1
    assert 0.1 < (found.share or 0.0) < 1.0
    assert BLAS_THREADS in diagnosis.switches([record])
