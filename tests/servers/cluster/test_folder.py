"""The private folder of a cluster is removed, also if workers still write to it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path

import psutil

from offload.serving.pools.dask_cluster import folder
from tests.waiting import wait_until


def test_a_folder_to_which_a_worker_still_writes_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "offload-dask"
    inner = path / "dask-scratch-space"
    inner.mkdir(parents=True)
    is_stopped = threading.Event()
    failures = tmp_path / "failures"

    def write() -> None:
        with suppress(FileNotFoundError):
            for number in count():
                (inner / f"worker-{number}.dirlock").touch()
                if is_stopped.is_set():
                    return

    worker = threading.Thread(target=write)
    worker.start()
    with failures.open("wb") as errors:
        remover = subprocess.Popen(
            ["/bin/sh", "-c", folder.REMOVE, "sh", path], stdin=subprocess.DEVNULL, stderr=errors
        )
        wait_until(lambda: failures.stat().st_size or not path.exists())  # the first attempt
        is_stopped.set()
        worker.join(20)
        assert remover.wait(20) == 0
    assert not path.exists()


def test_ctrl_c_in_the_terminal_of_the_server_does_not_end_the_remover(tmp_path: Path) -> None:
    path = tmp_path / "offload-dask"
    path.mkdir()
    remover = subprocess.Popen(
        ["/bin/sh", "-c", folder.REMOVE, "sh", path], stdin=subprocess.PIPE, start_new_session=True
    )
    children = psutil.Process(remover.pid).children
    assert wait_until(lambda: [child.name() for child in children()] == ["cat"])
    for number in (signal.SIGINT, signal.SIGTERM):
        os.killpg(remover.pid, number)
    assert path.exists()
    assert remover.communicate(timeout=20) == (None, None)  # its stdin ends
    assert remover.returncode == 0
    assert not path.exists()
