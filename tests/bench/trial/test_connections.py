"""The kept connections and the requests of a load are counted by process of the server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from offload.documents import notes, results_files
from offload.documents.rows import rows
from offload.engine.builder import UNEVEN_REQUESTS, has_uneven_requests, retry_reasons, trial_flags
from offload.engine.record import from_line, to_line
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
    assert any(flag.kind == "uneven" for flag in trial_flags(record)) == is_flagged


def test_uneven_shares_are_no_reason_for_a_retry() -> None:
    record = new_record(Case("prefork", "noop_sync"), "run", None)
    assert retry_reasons(changed(record, flags=("uneven: 15, 1",)), []) == {}


# One of the processes takes 20 times as long for each request.
SLOW_IN_ONE = """
import os, time
from pathlib import Path
OWNER = Path(__file__).with_name("owner")
def answers():
    try:
        with OWNER.open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        pass
    time.sleep(0.1 if OWNER.read_text() == str(os.getpid()) else 0.005)
    return "ok"
"""


@on_linux
@pytest.mark.server
def test_a_process_that_answers_less_than_the_others_is_shown(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW_IN_ONE)
    task = f"{tmp_path}/slow.py:answers"
    record = measure_window(Case("prefork", task, 4, settings={"processes": 2}))
    assert record.problem is None
    shares = record.resources.requests
    assert shares is not None
    assert len(shares) == 2
    assert shares[0] > UNEVEN_REQUESTS * shares[1]
    [shown] = [text for text in notes.case_warnings([("it", [record])]) if "uneven" in text]
    assert f"the server's processes answered {shares[0]}, {shares[1]} requests" in shown
    assert "reuse_port=yes" in shown
    again = from_line(to_line(record))
    assert again.resources.requests == shares


@on_linux
@pytest.mark.server
def test_a_record_has_both_sizes_and_the_requests_of_each_process() -> None:
    case = Case("threads", "sleep_short_sync", 8, settings={"processes": 2, "workers": 3})
    record = measure_window(case)
    assert record.problem is None
    server, shares = record.server, record.resources.requests
    assert (server.workers, server.processes, server.all_workers) == (3, 2, 6)
    assert shares is not None
    assert sum(shares) == pytest.approx(record.result.completed, rel=0.3)
    [row] = [results_files.row_values(row) for row in rows([record])]
    assert (row["workers"], row["processes"]) == (3, 2)
    assert row["requests_by_process"] == [*shares]


@on_linux
@pytest.mark.server
def test_a_server_of_one_process_has_no_shares() -> None:
    record = measure_window(Case("threads", "sleep_short_sync", 4, settings={"workers": 2}))
    assert (record.problem, record.resources.requests) == (None, None)


@pytest.mark.parametrize(
    ("requests", "is_uneven"),
    [((), False), ((90,), False), ((160, 100), True), ((149, 100), False), ((6, 2), False)],
)
def test_shares_of_requests_are_uneven_beyond_chance(
    requests: tuple[int, ...], *, is_uneven: bool
) -> None:
    assert has_uneven_requests(requests) == is_uneven
