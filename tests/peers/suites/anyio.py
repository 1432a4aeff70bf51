"""anyio's tests of its worker processes, run on our pool."""

from __future__ import annotations

from tests.peers.running import Peer
from tests.peers.sources import Sdist

LEFT_OUT = {
    "test_exec_while_pruning": "reads the private sets of workers of anyio; ours keeps its workers",
}

PEER = Peer(
    "anyio",
    sdist=Sdist(
        "anyio",
        "4.16.0",
        "59bb03251907983d1603d27c3087ddb1e93299ea2163adcdba37899a4fb12ffb",
        folder="src",
    ),
    files=("tests/test_to_process.py",),
    options=("-o", "anyio_mode=auto"),
    left_out=LEFT_OUT,
)
