"""Parametrize `test_peer` with the tests of a peer (with --all)."""

from __future__ import annotations

import pytest

from tests.peers import running, sources


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "peer_test" not in metafunc.fixturenames:
        return
    peer: running.Peer = metafunc.module.PEER
    if not metafunc.config.getoption("--all"):
        metafunc.parametrize("peer_test", [pytest.param("", id="all")])
        return
    try:
        tests = [pytest.param(test, id=test.partition("::")[2]) for test in peer.expected()]
    except sources.Unavailable as error:
        tests = [pytest.param("", marks=pytest.mark.skip(reason=str(error)), id="all")]
    metafunc.parametrize("peer_test", tests)
