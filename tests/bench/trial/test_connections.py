"""The kept connections of a load are counted by process of the server."""

from __future__ import annotations

import sys

import pytest

from offload.bench.trial import flags
from offload.suites import Case
from tests.records import changed, new_record
from tests.rounds import measure_window

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")


def kept(server: str, *, keep_alive: bool = True, **settings: int) -> tuple[int, ...] | None:
    case = Case(server, "sleep_short_sync", 6, keep_alive=keep_alive, settings=settings)
    record = measure_window(case)
    assert record.problem is None
    return record.resources.connections


@pytest.mark.slow
@on_linux
@pytest.mark.server
def test_each_process_that_accepts_connections_is_counted() -> None:
    counts = kept("prefork", processes=2)
    assert counts is not None
    assert (len(counts), sum(counts)) == (2, 6)


@on_linux
@pytest.mark.server
def test_workers_of_a_pool_accept_no_connections() -> None:
    assert kept("processes", workers=2) == (6,)


@pytest.mark.slow
@on_linux
@pytest.mark.server
def test_connections_that_are_not_kept_are_not_counted() -> None:
    assert kept("threads", keep_alive=False) is None


@pytest.mark.parametrize(
    ("counts", "is_flagged"),
    [
        ((6,), False),
        ((4, 2), False),
        ((5, 2), True),
        ((4, 0), True),
        ((2, 0), False),
        (None, False),
    ],
)
def test_uneven_shares_are_flagged(counts: tuple[int, ...] | None, *, is_flagged: bool) -> None:
    record = changed(new_record(Case("prefork", "noop_sync"), "run", None), connections=counts)
    assert any(flag.kind == "uneven" for flag in flags.trial_flags(record)) == is_flagged


def test_uneven_shares_are_no_reason_for_a_retry() -> None:
    record = new_record(Case("prefork", "noop_sync"), "run", None)
    assert flags.reasons(changed(record, flags=("uneven: 15, 1",)), []) == {}
