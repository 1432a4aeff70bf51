"""Real servers are soaked: a leak is found, and our own servers do not grow."""

from __future__ import annotations

import json

import pytest

from lab.soak import plan, run
from lab.soak.finding import FLAT, GROWS, Finding
from lab.soak.plan import Plan
from tests.installed import MISSING
from tests.lab.running import lab, lab_here

LEAKS = "lab.corpus.traps:leaks"
EVERY = tuple(name for name in plan.SERVERS if not MISSING[name])


@pytest.mark.server
def test_the_command_finds_a_leak() -> None:
    """A few seconds show that it works, not that a server is flat."""
    done = lab(
        "soak", "minutes=0.05", "servers=threads", f"task={LEAKS}", "format=json", timeout=50
    )
    [found] = json.loads(done.stdout)
    assert (found["verdict"], done.returncode) == (GROWS, 1), done.stderr
    assert "not flat: threads" in done.stderr
    assert found["statuses"]["200"] > 10
    assert found["serves"]


def soak(servers: tuple[str, ...], task: str) -> dict[str, Finding]:
    """Soak servers for a minute."""
    found = run.run(Plan(60.0, servers, task, seed=1), {})
    return {each.server: each for each in found}


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_leak_of_20_kb_a_request_is_found_in_every_server() -> None:
    found = soak(EVERY, LEAKS)
    assert {name: each.memory_verdict for name, each in found.items()} == dict.fromkeys(
        EVERY, GROWS
    )


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(200)
def test_no_server_grows_in_a_minute_of_faults() -> None:
    """Descriptors and threads are exact; memory may be unknown, because of one step of a heap."""
    found = soak(EVERY, plan.MIXED)
    assert not {name: each for name, each in found.items() if each.is_broken}
    for name, each in found.items():
        assert each.statuses["200"] > 300, name
        assert {"disconnected", "malformed", "oversized"} <= {*each.faults}, name
        assert (each.faults.get("killed", 0) > 0) == (name in run.BUSY_KILLS), name
        assert {"200", "404", "500"} <= {*each.statuses}, name
        counts = each.open_descriptors, each.running_threads
        assert [count.verdict for count in counts] == [FLAT, FLAT], (name, counts)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("minutes=0", "is not a number from 0.05"),
        ("servers=threadz", "choose from sync"),
        ("servers=gunicorn_sync", "is not one of the servers"),
        ("seed=x", "is not a whole number"),
        ("format=xml", "format="),
        ("servers=threads,task=nothing", "nothing"),
    ],
)
def test_a_wrong_option_is_refused(options: str, why: str) -> None:
    refused = lab_here("soak", *options.split(","))
    assert (refused.returncode, why in refused.stderr) == (2, True), refused.stderr
