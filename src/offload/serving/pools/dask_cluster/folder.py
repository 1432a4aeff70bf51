"""The private folder for the temporary files of a cluster, removed however the process ends."""

from __future__ import annotations

import subprocess
import tempfile
from multiprocessing import util
from pathlib import Path

from offload.serving.lifecycle.stop_signal import temporary_folders
from offload.serving.pools.pool_workers import block_signals

# Ctrl-C reaches this process, too. It ignores these signals, because dash unblocks blocked ones. A
# worker that ends later than the server may write to the folder while it is removed.
REMOVE = """
trap '' INT TERM HUP
cat >/dev/null
for pause in 0 1 2 4 8; do
    sleep $pause
    rm -rf -- "$1" && break
done
"""

# Each waits for the end of its stdin: that is the end of this process, also by kill -9.
_removers: list[subprocess.Popen[bytes]] = []


def create() -> Path:
    """Create a folder for this user only, with the files of multiprocessing in it.

    A small process removes it after the end of this one.
    """
    with block_signals():  # until the process ignores them
        path = Path(tempfile.mkdtemp(prefix="offload-dask-"))
        temporary_folders.append(str(path))
        remover = subprocess.Popen(
            ["/bin/sh", "-c", REMOVE, "sh", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    _removers.append(remover)
    tempfile.tempdir = str(path)
    util.get_temp_dir()  # multiprocessing keeps this folder from now on
    tempfile.tempdir = None
    return path
