"""Whole lines of the tables of pools and of hops: each figure in its column, with its unit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.pools import hops_table as hops
from lab.pools import pools_table as pools
from lab.pools.hops import Hop
from lab.pools.summary import Cell

CELL = Cell("pipes", "1 KiB", 8, 3, 99.96, 0.034, 9999.0, 10_000.0, 12.4, 1.234, 1.1, 1.3)
HOP = Hop("pipes", 3, 1234.5, 321.4, (120.4, 110.4, 130.4), (1.2, 1.1, 1.3), None, False)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_a_cell_of_a_pool_has_its_figures() -> None:
    bare = replace(CELL, pool="process", rate=100.0, half_width=None, cpu_us=None)
    bare = replace(bare, times=None, low=None, high=None)
    lines = pools.text([CELL, bare], [], "a machine").splitlines()
    assert lines[:3] == ["a machine", "", "1 KiB"]
    assert cells(lines[4]) == [
        "Pool",
        "Concurrency",
        "Tasks/s",
        "p50",
        "p99",
        "CPU a task",
        "x process",
    ]
    assert cells(lines[6]) == ["process", "8", "100", "-", "9999 us", "10.0 ms", "-", "-"]
    assert cells(lines[7]) == [
        *("pipes", "8", "100.0", "+-3 %", "9999 us", "10.0 ms", "12 us", "1.23", "1.10 to 1.30")
    ]


def test_sizes_have_tables_of_their_own_and_the_fastest_pool_stands_first() -> None:
    other = replace(CELL, size="1 MiB")
    found = [CELL, replace(CELL, pool="quick", rate=200.0), replace(CELL, concurrency=1), other]
    lines = [cells(line) for line in pools.text(found, [], "").splitlines()]
    at = lines.index(["1 KiB"]), lines.index(["1 MiB"])
    assert at[0] < at[1]
    rows = [line[:2] for line in lines if line[:1] in (["pipes"], ["quick"])]
    assert rows == [["pipes", "1"], ["quick", "8"], ["pipes", "8"], ["pipes", "8"]]


def test_start_times_and_missing_pools_are_below_the_tables() -> None:
    starts = [
        {"kind": "pool", "pool": "pipes", "start_s": 0.0504, "memory_mib": 12.34},
        {"kind": "pool", "pool": "thread", "start_s": 0.0, "memory_mib": 0},
        {"kind": "missing", "pool": "loky"},
        {"kind": "missing", "pool": "pebble"},
    ]
    *_, one, two, _, last = pools.text([], starts, "").splitlines()
    assert (cells(one), cells(two)) == (["pipes", "50 ms", "12.3 MiB"], ["thread", "0 ms", "-"])
    assert last == "Not installed: loky, pebble."
    assert "Not installed" not in pools.text([], starts[:2], "")


@pytest.mark.parametrize("missing", [{}, {"pebble": "pebble is not installed"}])
def test_a_hop_has_its_figures_and_what_was_left_out(missing: dict[str, str]) -> None:
    direct = Hop("loop", 3, 9999.6, 99.5, None, None, (2.345, 2.2, 2.5), True)
    lines = hops.text([direct, HOP], missing, "a machine").splitlines()
    assert lines[2].startswith("noop_sync, 64 users with keep-alive connections. Added is")
    assert cells(lines[4]) == [
        *("Server", "Requests/s", "x processes", "CPU a request", "Added", "x threads")
    ]
    assert cells(lines[6]) == ["loop", "10000", "2.35", "2.20 to 2.50", "100 us", "-", "-"]
    assert cells(lines[7]) == [
        *("pipes", "1234", "-", "321 us", "120 us", "110 to 130", "1.20", "1.10 to 1.30")
    ]
    assert lines[9] == "The load tool limited the rate, or nearly did: loop."
    assert lines[10:] == (["", "Left out: pebble is not installed."] if missing else [])
