"""anyio's tests of its worker processes, run on our pool."""

from __future__ import annotations

import pytest

from tests.peers import running

LEFT_OUT = {
    "test_exec_while_pruning": "reads the private sets of workers of anyio; ours keeps its workers",
}

pytestmark = pytest.mark.server

PEER = running.Peer(
    "anyio",
    files=("tests/test_to_process.py",),
    options=("-o", "anyio_mode=auto"),
    sample=(
        "test_to_process.py::test_cancel_during[asyncio]",
        "test_to_process.py::test_identical_sys_path[asyncio]",
        "test_to_process.py::test_entrypoint_main_module[asyncio]",
    ),
    left_out=LEFT_OUT,
)


@pytest.mark.slow  # its sources are downloaded and built
@pytest.mark.timeout(300)
def test_sample() -> None:
    running.check_sample(PEER)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_peer(peer_test: str) -> None:
    running.check(PEER, peer_test)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_every_entry_of_the_tables_names_a_test() -> None:
    running.check_tables(PEER)
