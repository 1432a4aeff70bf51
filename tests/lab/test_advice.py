"""The judgement of advice: when another set-up dominates the advised one."""

from __future__ import annotations

import pytest

from lab import advice
from lab.commands import PROGRAM, check_advice
from offload.errors import GateError
from offload.studies.advise.application import Application
from offload.studies.advise.costs import Costs
from offload.studies.advise.evidence import THREADS, Evidence, Setup
from offload.suites import Case
from tests.lab.running import lab_here

OWN = Evidence(
    Setup("threads", THREADS, 2, 32), {n: 1000.0 + n for n in range(7)}, memory_mib=100.0
)


def rival(rate: float, memory_mib: float, noise: float = 1.0) -> Evidence:
    """Return what was measured of a rival, whose rate varies by `noise`."""
    rates = {n: rate * (noise if n % 2 else 1 / noise) for n in range(7)}
    return Evidence(Setup("threads", THREADS, 4, 16), rates, memory_mib=memory_mib)


@pytest.mark.parametrize(
    ("other", "dominates"),
    [
        (rival(1200.0, 105.0), True),
        (rival(1200.0, 120.0), False),  # more memory
        (rival(1080.0, 100.0), False),  # hardly faster
        (rival(1200.0, 100.0, noise=1.5), False),  # not certain
        (rival(1000.0, 45.0), True),  # half the memory
        (rival(900.0, 45.0), False),  # but slower
    ],
)
def test_a_rival_dominates_by_whole_intervals(other: Evidence, dominates: bool) -> None:
    assert bool(advice._dominates(other, OWN)) is dominates


def test_a_rival_that_cannot_dominate_any_more_is_left() -> None:
    assert not advice._may_dominate(rival(900.0, 100.0), OWN)
    assert not advice._may_dominate(rival(1200.0, 150.0), OWN)
    assert advice._may_dominate(rival(1200.0, 100.0, noise=1.5), OWN)


def test_an_application_is_judged_against_each_of_its_servers_in_the_usual_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = ["gunicorn_gthread", "gunicorn_sync", "waitress"]
    monkeypatch.setattr(advice.application, "servers", lambda *_: servers)
    own = Application(("wsgi",), "app", Costs({}, 2.0, is_awaited=False), 0.01, 0.01, 8)
    found = advice._grid(own, Case("threads", "app=shop:app"))
    assert {each.name for each in found} == {
        *(f"gunicorn_gthread {size}" for size in ("1x8", "1x32", "2x8", "2x32", "4x16")),
        *("gunicorn_sync 1x1", "gunicorn_sync 2x1"),
        *("waitress 1x8", "waitress 1x32"),
    }


def test_a_wrong_cause_is_a_failure() -> None:
    assert not advice.Judgement("app=x:app", causes=["arenas"], seeded="arenas").failures
    assert not advice.Judgement("shop:quote").failures
    wrong = advice.Judgement("app=x:app", causes=["nothing"], seeded="loop_blocked")
    assert wrong.failures == ["the cause is loop_blocked, not nothing"]
    missing = advice.Judgement("app=x:app", seeded="nothing", dominated={"pipes x2": "1.5x"})
    assert missing.failures == [
        "the cause is nothing, not no cause",
        "dominated by pipes x2: 1.5x",
    ]


def test_a_wrong_cause_changes_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        advice, "judge", lambda *_: advice.Judgement("a", causes=["nothing"], seeded="arenas")
    )
    with pytest.raises(GateError, match="a cause is wrong"):
        check_advice.check_advice(applications="yes", seed="1", count="1")


def test_a_wrong_count_is_one_line() -> None:
    said = lab_here("check_advice", "count=0")
    assert (said.returncode, said.stderr.count("\n")) == (2, 1)
    assert "check_advice" in PROGRAM.commands
