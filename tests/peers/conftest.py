"""Parametrize the tests of this folder: a sample of each peer's tests, with --all every one."""

from __future__ import annotations

import pytest

from tests.peers import running, sources


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "peer_test" not in metafunc.fixturenames:
        return
    peer: running.Peer = metafunc.module.PEER
    tests = list(peer.sample)
    if metafunc.config.getoption("--all"):
        try:
            tests = peer.expected()
        except sources.Unavailable as error:
            marks = pytest.mark.skip(reason=str(error))
            metafunc.parametrize("peer_test", [pytest.param("", marks=marks, id="all")])
            return
    metafunc.parametrize("peer_test", [_parameter(peer, test) for test in tests])


def _parameter(peer: running.Peer, test: str) -> object:
    marks = [] if test in peer.sample else [pytest.mark.slow]
    return pytest.param(test, marks=marks, id=test.partition("::")[2])
