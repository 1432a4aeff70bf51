"""dask's tests of its scheduler `processes` and of its bags, which use it, run on our executor."""

from __future__ import annotations

from tests.peers.running import Peer
from tests.peers.sources import Sdist

WINDOWS = "for Windows only"
NETWORK = "needs the network"
NEEDS_DASK_DATAFRAME = "needs pandas"

PEER = Peer(
    "dask",
    sdist=Sdist(
        "dask",
        "2026.8.0",
        "8a94c37b5de6d869343340dc26c3c3acca7ec48a3abdabe00ea3abb1125884d5",
        needs=("fsspec==2026.9.0", "partd==1.4.2", "toolz==1.2.0", "locket==1.0.0"),
    ),
    files=(
        "dask/tests/test_multiprocessing.py",
        "dask/tests/test_local.py",
        "dask/bag/tests/test_bag.py",
    ),
    better={
        "test_custom_context_used_python3_posix": (
            "workers never inherit the state of the application, whatever the context"
        ),
    },
    not_run={
        "test_reuse_pool[Pool]": "uses multiprocessing.Pool",
        "test_custom_context_ignored_elsewhere": WINDOWS,
        "test_get_context_always_default": WINDOWS,
        "test_from_url": NETWORK,
        "test_from_s3": NETWORK,
        "test_from_empty_sequence": NEEDS_DASK_DATAFRAME,
        "test_to_dataframe": NEEDS_DASK_DATAFRAME,
        "test_to_dataframe_optimize_graph": NEEDS_DASK_DATAFRAME,
    },
)
