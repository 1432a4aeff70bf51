"""Parametrize `test_peer` and `test_newest` with the tests of a peer (with --all)."""

from __future__ import annotations

import pytest

from tests.peers import running, sources


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name in {"peer_test", "newest_test"} & {*metafunc.fixturenames}:
        module, is_all = metafunc.module, metafunc.config.getoption("--all")
        peer: running.Peer | None = None
        if is_all:
            peer = module.PEER if name == "peer_test" else module.newest()
        metafunc.parametrize(name, _tests(peer))


def _tests(peer: running.Peer | None) -> list[object]:
    if peer is None:
        return [pytest.param("", id="all")]
    try:
        return [pytest.param(test, id=test.partition("::")[2]) for test in peer.expected()]
    except sources.Unavailable as error:
        return [pytest.param("", marks=pytest.mark.skip(reason=str(error)), id="all")]
