"""The slots of a server are those of all its processes; only one of them reports its own."""

from __future__ import annotations

from offload.engine import figures
from offload.engine.record import WINDOW
from offload.suites import Case
from tests.records import changed, new_record

PREFORK = Case("prefork", "sleep_short_sync", settings={"processes": 4})
FACTS = {"kind": WINDOW, "slots": 1, "slot_s": 0.05, "alone_s": 0.05}


def test_processes_that_report_one_slot_each_have_several() -> None:
    record = changed(new_record(PREFORK, "run"), rate=79.0, **FACTS)
    assert figures.exceeded_ceiling(record, [record]) is None
    assert figures.case_ceiling(record, [record], in_flight=25.0) is not None
    fast = changed(record, rate=82.0)
    found = figures.exceeded_ceiling(fast, [fast])
    assert found is not None
    assert round(found.rate) == 80


def test_workers_in_one_process_are_its_slots() -> None:
    threads = Case("threads", "sleep_short_sync", settings={"workers": 4})
    record = changed(new_record(threads, "run"), rate=79.0, **{**FACTS, "slots": 4}, workers=4)
    assert figures.exceeded_ceiling(record, [record]) is None
    fast = changed(record, rate=82.0)
    assert figures.exceeded_ceiling(fast, [fast]) is not None


def test_a_single_request_on_a_cluster_takes_longer_than_it_occupies_a_worker() -> None:
    cluster = Case("dask", "sleep_short_sync", settings={"workers": 2})
    single = {"kind": WINDOW, "alone_s": 0.05, "workers": 2}
    record = changed(
        new_record(cluster, "run"), rate=60.0, settings={"dask_isolate": "no"}, **single
    )
    found = figures.case_ceiling(record, [record], in_flight=25.0)
    assert found is not None and (found.kind, round(found.rate)) == ("users", 500)
    assert figures.pool_rate(record, [record]) is None
    pool = changed(record, settings={})
    found = figures.case_ceiling(pool, [pool], in_flight=25.0)
    assert found is not None and round(found.rate) == 40
