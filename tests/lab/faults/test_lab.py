"""The fault lab at its small size: real faults, injected into real servers."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace

import pytest

from lab.faults import faults_table, lab
from lab.faults.lab import ROWS, Finding
from lab.faults.row import SMALL, NotAvailable, Outcome, Row, Size, judge_server
from offload.errors import MachineError, UsageError
from offload.registry import catalog
from tests.installed import MISSING, require
from tests.lab.running import lab as run_lab
from tests.lab.running import lab_here

PROMISED = [
    ("R1", "processes"),
    ("R1", "pipes"),
    ("R2", "pipes"),
    ("R3", "threads"),
    ("R3", "pipes"),
    ("R4", "loop"),
    ("R4", "processes"),
    ("R7", "sync"),
    ("R7", "prefork"),
    ("R9", "sync"),
    ("R8", "sync"),
    pytest.param("R8", "loop-protected", marks=pytest.mark.slow),
    pytest.param("R8", "threads", marks=pytest.mark.slow),
    pytest.param("R8", "pipes", marks=pytest.mark.slow),
    ("R8", "prefork"),
    ("R10", "threads"),
    ("R10", "prefork"),
    ("R11", "processes"),
    ("R11", "bench"),
    ("R12", "sync"),
]
NEW = ("R6", "R7", "R9", "R12")
# R6 compares response times, and slowhttptest occupies a core: it needs a machine of its own.
SLOW = [
    pytest.param(row, server, marks=pytest.mark.timing if row == "R6" else ())
    for row in NEW
    for server in ROWS[row].servers
    if (row, server) not in PROMISED
]


@pytest.fixture(autouse=True)
def _temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have temporary files where pytest removes them: a server killed by 9 leaves its own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("t")))
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.mark.server
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("row", "server"), PROMISED)
def test_a_promise_is_kept(row: str, server: str) -> None:
    found = lab.run(ROWS[row], server, SMALL)
    assert found.is_kept is True, found.figure


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("row", "server"), SLOW)
def test_a_promise_of_another_server_is_kept(row: str, server: str) -> None:
    if server in MISSING:  # else it is the bench
        require(server)
    found = lab.run(ROWS[row], server, SMALL)
    assert found.is_kept is True, found.figure


@pytest.mark.server
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("row", "server", "figure"),
    [
        ("R1", "plain_processes", "requests failed"),
        pytest.param("R6", "plain_threads", "headers not closed", marks=pytest.mark.slow),
        pytest.param("R7", "plain_threads", "1,000 headers: 200", marks=pytest.mark.slow),
    ],
)
def test_a_fault_that_a_server_does_not_survive_is_seen(row: str, server: str, figure: str) -> None:
    found = lab.run(ROWS[row], server, SMALL)
    assert (found.is_kept, found.promised, found.is_broken) == (False, False, False), found.figure
    assert figure in found.figure


@pytest.mark.unit
def test_every_server_of_a_row_exists() -> None:
    for row in ROWS.values():
        for name in row.all_servers:
            server = name.removesuffix("-unprotected").removesuffix("-protected")
            is_bench = server.partition("-")[0] == "bench"
            assert is_bench or catalog.find_server(server).name == server


def _row(server: str, size: Size) -> Outcome:
    if server == "processes":
        raise RuntimeError("it broke")
    if server == "pebble":
        raise MachineError("pebble is not installed")
    if server == "bench":
        raise NotAvailable("needs root")
    return Outcome(server != "pipes", f"{size.kills} kills")


ROW = Row(
    "R1",
    "a fault",
    "a promise",
    _row,
    ("threads", "pipes", "processes", "bench"),
    others={"pebble": "no promise"},
    skipped={"sync": "it has none"},
)


@pytest.mark.unit
def test_an_error_of_the_lab_is_a_broken_promise() -> None:
    found = [lab.run(ROW, name, SMALL) for name in ROW.all_servers]
    assert [each.is_kept for each in found] == [True, False, False, None, None, None]
    assert [each.is_broken for each in found] == [False, True, True, False, False, False]
    with pytest.raises(MachineError):
        lab.run(replace(ROW, servers=("pebble",)), "pebble", SMALL)


@pytest.mark.unit
def test_a_server_that_has_ended_has_not_kept_its_promise() -> None:
    assert judge_server(True, ["0 failed"], is_alive=True) == Outcome(True, "0 failed")
    ended = Outcome(False, "0 failed; the server ended")
    assert judge_server(True, ["0 failed"], is_alive=False) == ended


@pytest.mark.unit
def test_the_table_names_fault_promise_and_broken_ones() -> None:
    found = [lab.run(ROW, name, SMALL) for name in ROW.all_servers]
    text, reason = faults_table.render(found), ROWS["R1"].reason("sync")
    assert max(map(len, text.splitlines())) <= 100
    named = ("BROKEN", "not available", "needs root")
    for words in (ROWS["R1"].fault, ROWS["R1"].promise, reason, *named):
        assert words in " ".join(text.split()), words
    assert faults_table.summary(found) == (
        "1 of 4 promises kept; broken: R1 of pipes, R1 of processes; not available: R1 of bench"
    )
    values = json.loads(faults_table.as_json(found))
    assert [Finding(**value) for value in values] == found


@pytest.mark.unit
@pytest.mark.parametrize(
    ("row", "servers", "why"),
    [("R99", [], "there is no row"), ("R1", ["threadz"], "in none of these rows")],
)
def test_an_unknown_row_or_server_is_refused(row: str, servers: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        lab.select(row, servers)
    refused = lab_here("faults", row, f"servers={'+'.join(servers)}")
    assert (refused.returncode, why in refused.stderr) == (2, True), refused.stderr


@pytest.mark.server
@pytest.mark.timeout(120)
def test_the_command_prints_what_a_server_did() -> None:
    done = run_lab("faults", "R4", "servers=threads", "size=small", timeout=100)
    assert done.returncode == 0, done.stderr
    assert "threads" in done.stdout
    assert "1 of 1 promises kept" in done.stdout
