"""Parametrize the tests of this folder: all of a peer's tests with --all, else a sample."""

from __future__ import annotations

import pytest

from tests.peers import running, sources


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "peer_test" not in metafunc.fixturenames:
        return
    peer: running.Peer = metafunc.module.PEER
    if not metafunc.config.getoption("--all"):
        metafunc.parametrize("peer_test", peer.sample)
        return
    try:
        tests = peer.expected()
    except sources.Unavailable as error:
        skipped = pytest.param("", marks=pytest.mark.skip(reason=str(error)), id="all")
        metafunc.parametrize("peer_test", [skipped])
        return
    metafunc.parametrize("peer_test", tests)
