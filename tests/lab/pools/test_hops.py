"""Hop overhead is computed within a round, and responses from outside our pool are ignored."""

from __future__ import annotations

import json

import pytest

from lab.pools import hops
from lab.pools import hops_table as report
from offload.engine.plan import Block
from offload.engine.record import WINDOW, Record
from tests.records import changed, record_of

# us of CPU a request: the noise of a round is in all of them alike
CPU = {"loop": 200.0, "threads": 300.0, "processes": 700.0, "pipes": 320.0, "granian_wsgi": 50.0}
NOISE = (0.0, 40.0, -30.0)


def record(server: str, number: int, us: float) -> Record:
    moment = {"rate": 1e6 / us, "cpu_ms_per_request": us / 1000, "flags": ("client-bound: busy",)}
    kept = moment if server == "granian_wsgi" else {**moment, "flags": ()}
    return record_of("run", server, "noop_sync", 64, "", "", kind=WINDOW, round=number, **kept)  # type: ignore[arg-type]


RECORDS = [record(s, n, us + NOISE[n]) for s, us in CPU.items() for n in range(3)]


def test_what_an_executor_adds_is_free_of_the_noise_of_its_round() -> None:
    found = {hop.server: hop for hop in hops.summarize(RECORDS)}
    assert found["pipes"].added_us == pytest.approx((120, 120, 120))
    assert found["pipes"].of_threads == pytest.approx((1.2, 1.2, 1.2))
    assert found["processes"].added_us == pytest.approx((500, 500, 500))
    assert (found["loop"].added_us, found["granian_wsgi"].added_us) == (None, None)
    assert (found["threads"].of_threads, found["processes"].of_standard) == (None, None)
    assert found["pipes"].of_standard is not None and found["pipes"].of_standard[0] > 2


def test_without_a_direct_answer_all_but_what_is_added_is_known() -> None:
    found = hops.summarize([each for each in RECORDS if each.case.server != "loop"])
    assert {hop.server for hop in found} == {*CPU} - {"loop"}
    assert {(hop.added_us, hop.of_threads) for hop in found} == {(None, None)}
    assert next(hop for hop in found if hop.server == "pipes").of_standard is not None


def test_what_dirty_workers_add_is_beyond_gunicorn_without_them() -> None:
    """Not beyond `loop`: its HTTP server is another one."""
    us = {"gunicorn_gthread": 400.0, "gunicorn_dirty": 1000.0}
    more = [record(server, n, us[server] + NOISE[n]) for server in us for n in range(3)]
    found = {hop.server: hop for hop in hops.summarize([*RECORDS, *more])}
    assert found["gunicorn_dirty"].added_us == pytest.approx((600, 600, 600))
    assert found["gunicorn_dirty"].of_threads == pytest.approx((6, 6, 6))
    assert (found["gunicorn_gthread"].added_us, found["gunicorn_gthread"].of_threads) == (
        None,
        None,
    )
    words = report.text([*found.values()], {}, "a machine")
    assert "that of loop, for gunicorn_dirty minus that of gunicorn_gthread." in " ".join(
        words.split()
    )
    assert "gunicorn" not in report.text(hops.summarize(RECORDS), {}, "a machine")


def test_a_server_without_figures_is_left_out_with_its_reason() -> None:
    failed = changed(record("pipes", 0, 1.0), rate=None, problem="builtin gave up")
    missing = changed(record("pebble", 0, 1.0), rate=None, problem="not available: no pebble")
    found = hops.missing_servers([*RECORDS[:3], failed, missing])
    assert found == {"pipes": "pipes: builtin gave up", "pebble": "pebble: no pebble"}


def test_all_servers_are_one_block_of_the_same_task() -> None:
    plan = hops.servers_plan(is_quick=True, workers=2)
    assert plan.blocks == (Block(tuple(range(len(plan.cases)))),)
    assert [case.server for case in plan.cases] == [*hops.SERVERS, *hops.PEERS]
    assert {case.task for case in plan.cases} == {hops.TASK}
    assert plan.cases[1].settings == {"workers": 2}


def test_the_table_reports_what_is_missing_and_which_rate_is_the_load_tools() -> None:
    missing = {"pebble": "pebble needs pebble: make suites"}
    words = report.text(hops.summarize(RECORDS), missing, "a machine")
    assert "The load tool limited the rate, or nearly did: granian_wsgi." in words
    assert words.endswith("Left out: pebble needs pebble: make suites.")
    values = json.loads(json.dumps(report.as_dict(hops.summarize(RECORDS), missing, "a machine")))
    again = [hops.Hop(**each) for each in values["servers"]]
    assert report.text(again, values["missing"], values["environment"]) == words
