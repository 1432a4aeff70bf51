"""The private folder of a cluster is removed, also if workers still write to it."""

from __future__ import annotations

import subprocess
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path

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
