"""Parametrize the tests with peers and batches of their tests (with --all); print the counts."""

from __future__ import annotations

import pytest

from tests.peers import running, sources
from tests.peers.suites import (
    aiomultiprocess,
    anyio,
    billiard,
    cpython,
    dask,
    joblib,
    loky,
    mpire,
    pebble,
)

MODULES = (aiomultiprocess, anyio, billiard, dask, joblib, loky, mpire, pebble)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "peer" in metafunc.fixturenames:
        is_all = metafunc.config.getoption("--all")
        peers = [*cpython.peers(), *(each.PEER for each in MODULES)] if is_all else []
        with_tests = "tests" in metafunc.fixturenames
        cases = [case for peer in peers for case in _cases(peer, with_tests)]
        metafunc.parametrize(["peer", "tests"] if with_tests else ["peer"], cases)


def _cases(peer: running.Peer, with_tests: bool) -> list[object]:
    """Return the parameters of a test: a peer or, with tests, each of its batches."""
    label = f"{peer.name}-{peer.version}"
    try:
        batches = running.batches(peer)
    except sources.Unavailable as error:
        skip = pytest.mark.skip(reason=str(error))
        return [pytest.param(*[peer, ()][: 1 + with_tests], marks=skip, id=label)]
    if not with_tests:
        return [pytest.param(peer, id=label)]
    return [
        pytest.param(peer, each, id=f"{label}-{n if len(each) > 1 else each[0]}")
        for n, each in enumerate(batches)
    ]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.getreports("passed"):
        for name, line in getattr(report, "user_properties", ()):
            if name == "peer":
                terminalreporter.write_line(line)
