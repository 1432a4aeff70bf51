"""The gain of a remedy is that of the rounds in which both were measured; a suspicion needs one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from offload.causes import diagnosis
from offload.causes.execution import THREAD_LIMIT
from offload.causes.gains import Gain, Switch, estimate_gain
from offload.causes.pools import DEFAULT_EXECUTOR
from offload.causes.rules import Cause, Rule
from offload.engine.application import Collector
from offload.engine.record import WINDOW, Record
from offload.engine.server import command
from offload.serving.metrics import thread_use
from offload.studies.advise.result import switched
from offload.suites import Case
from tests.bench.analysis.test_application_causes import IDLE
from tests.records import new_record

CASE = Case("uvicorn_workers", "app=shop:app", settings={"processes": 2})
ARENAS = Switch({"MALLOC_ARENA_MAX": "2"})
GAIN = Gain("MALLOC_ARENA_MAX=2", 3.6, 3.3, 3.9)


def windows(rates: Sequence[float | None], after_mib: Sequence[float] = ()) -> list[Record]:
    """Return a window in each round."""
    found = []
    for number, rate in enumerate(rates):
        record = new_record(CASE, "run", rate=rate)
        trial = replace(record.trial, kind=WINDOW, block=1, round=number)
        memory = replace(record.resources.memory, after_mib=(after_mib or [None] * 9)[number])
        found.append(
            replace(record, trial=trial, resources=replace(record.resources, memory=memory))
        )
    return found


def test_a_gain_is_the_ratio_of_the_rates_and_the_memory_that_is_saved() -> None:
    plain = windows([65.0, 68.0, 66.0], [955.0, 940.0, 970.0])
    found = estimate_gain("MALLOC_ARENA_MAX=2", plain, windows([244.0, 239.0, 250.0], [312.0] * 3))
    assert found is not None
    assert found.ratio == pytest.approx(3.68, abs=0.01) and 3 < found.low < found.high < 4.5
    assert found.saved_mib == pytest.approx(643.0) and found.is_clear
    assert found.text.startswith("Measured with MALLOC_ARENA_MAX=2: 3.68 times the rate (3.")
    assert found.text.endswith(", 643 MiB less")


@pytest.mark.parametrize(
    ("rates", "after_mib"),
    [
        ([66.0, 69.0, 64.0], [955.0, 950.0, 960.0]),  # the same
        ([80.0, 68.0, 75.0], [900.0, 1100.0, 700.0]),  # the interval includes 1, and 0 MiB
        ([66.0, 69.0, 64.0], [945.0, 930.0, 960.0]),  # 10 MiB of 955
        ([68.3, 71.4, 69.3], [955.0, 950.0, 960.0]),  # certain, but 1.05 times
    ],
)
def test_a_small_or_uncertain_gain_is_not_clear(rates: list[float], after_mib: list[float]) -> None:
    plain = windows([65.0, 68.0, 66.0], [955.0, 940.0, 970.0])
    found = estimate_gain("A=1", plain, windows(rates, after_mib))
    assert found is not None and not found.is_clear and "less" not in found.text


def test_a_certain_gain_of_a_tenth_is_clear() -> None:
    plain = windows([65.0, 68.0, 66.0])
    found = estimate_gain("A=1", plain, windows([75.0, 79.5, 76.0]))
    assert found is not None and found.low is not None
    assert 1 < found.low < found.ratio < 1.2 and found.is_clear


def test_memory_that_varies_is_saved_for_certain_if_each_round_saves_much_of_it() -> None:
    plain = windows([65.0, 68.0, 66.0], [1017.0, 1109.0, 1916.0])
    found = estimate_gain("A=1", plain, windows([66.0, 69.0, 64.0], [463.0, 402.0, 414.0]))
    assert found is not None and found.saves_memory and found.text.endswith(", 921 MiB less")


def test_a_gain_in_one_round_is_neither_certain_nor_clear() -> None:
    found = estimate_gain("A=1", windows([65.0, 66.0]), windows([130.0, None]))
    assert found is not None and not found.is_clear
    assert found.text == "Measured with A=1: 2 times the rate (1 round)"


def test_a_gain_is_unknown_without_a_round_of_both() -> None:
    assert estimate_gain("A=1", windows([65.0, None]), windows([None, 70.0])) is None
    assert estimate_gain("A=1", windows([65.0, 66.0]), []) is None


def test_a_switch_changes_a_case_that_does_not_have_it_and_whose_server_has_the_setting() -> None:
    changed = switched(CASE, ARENAS)
    assert changed is not None and changed.variables == {"MALLOC_ARENA_MAX": "2"}
    assert changed.id != CASE.id and "MALLOC_ARENA_MAX=2" in changed.name
    assert switched(changed, ARENAS) is None
    assert switched(CASE, Switch(settings={"reuse_port": "yes"})) is None
    more = switched(CASE, Switch(settings={"workers": 80}))
    assert more is not None and more.settings == {"processes": 2, "workers": 80}
    kept = switched(CASE, Switch(keep_alive=True))
    assert kept is not None and kept.keep_alive
    assert Switch({"A": "1"}, {"workers": 8}, False).text == "A=1 workers=8 keep_alive=no"


def test_the_variables_of_a_case_are_those_of_its_server() -> None:
    case = replace(CASE, task="noop_sync", server="threads", settings={})
    _, environment = command(replace(case, variables={"MALLOC_ARENA_MAX": "2"}), 0)
    assert environment["MALLOC_ARENA_MAX"] == "2"
    assert "MALLOC_ARENA_MAX" not in command(case, 0)[1]


def kinds(gain: Gain | None = None, **cause: Any) -> list[str]:
    """Return the causes if a rule finds one that explains a saturated GIL."""
    rule = Rule(
        "suspected",
        lambda _: Cause("suspected", **cause),
        lambda *_: "it is suspected",
        "change it",
        switch=lambda _: ARENAS,
    )
    saturated = replace(diagnosis._BY_KIND["gil_saturated"], is_symptom_of=frozenset({"suspected"}))
    busy = replace(IDLE, signs=replace(IDLE.signs, gil_utilisation=0.97), rate=50.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(diagnosis._BY_KIND, "suspected", rule)
        patch.setitem(diagnosis._BY_KIND, "gil_saturated", saturated)
        patch.setattr(diagnosis, "RULES", (rule, *diagnosis.RULES))
        found = diagnosis.find(busy, {"suspected": gain} if gain else {})
    return [each.kind for each in found]


def test_a_suspicion_is_a_cause_and_explains_others_only_if_its_gain_is_clear() -> None:
    assert kinds(needs_gain=True) == ["gil_saturated"]
    assert kinds(replace(GAIN, low=0.9), needs_gain=True) == ["gil_saturated"]
    assert kinds(GAIN, needs_gain=True) == ["suspected"]


def test_a_cause_without_a_clear_gain_stays_one_and_its_sentence_has_the_figures() -> None:
    low = replace(GAIN, ratio=0.99, low=0.9, high=1.1)
    cause = Cause("collector", 0.7, 0.15, facts=Collector(longest_s=0.07), gain=low)
    text = diagnosis.sentence(cause, 8)
    assert text.startswith(
        "The garbage collector takes 70 % of the CPU time, up to 70 ms at a time; "
    )
    assert "as gc.freeze() gains little, raise gc.set_threshold()" in text
    assert text.endswith(". Measured with MALLOC_ARENA_MAX=2: 0.99 times the rate (0.9 to 1.1).")


def test_twice_the_threads_are_measured_if_all_are_in_use() -> None:
    rule = next(each for each in diagnosis.RULES if each.kind == THREAD_LIMIT)
    switch = rule.switch(Cause(THREAD_LIMIT, 0.9, 0.1, limit=40))
    assert switch is not None and switch.text == "80 threads"
    assert switch.variables == {thread_use.TOKENS: "80"}
    assert rule.switch(Cause(THREAD_LIMIT, 0.9, 0.1)) is None
    of_asyncio = next(each for each in diagnosis.RULES if each.kind == DEFAULT_EXECUTOR)
    switch = of_asyncio.switch(Cause(DEFAULT_EXECUTOR, 0.9, 0.5, limit=6))
    assert switch is not None and switch.variables == {thread_use.EXECUTOR_THREADS: "12"}
