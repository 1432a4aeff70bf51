"""The settings of the protection, their facts and their names in cases."""

from __future__ import annotations

import pytest

from offload.errors import UsageError
from offload.registry import catalog
from offload.registry.entries import PROTECTION_DEFAULTS
from offload.serving import main
from offload.suites import _case, tornado
from tests.commands import fab_here
from tests.http_clients import get
from tests.servers.protection.conftest import Protected, facts

PROTECTED = (
    "loop threads processes pipes pebble dask interpreters anyio_threads prefork".split()  # noqa: SIM905
)


def test_the_servers_on_tornado_have_the_settings_of_the_protection() -> None:
    has_them = [
        n for n, s in catalog.servers().items() if PROTECTION_DEFAULTS.items() <= s.settings.items()
    ]
    assert sorted(has_them) == sorted(PROTECTED)


@pytest.mark.parametrize("value", ["0", "0.05", "-1", "nan", "inf", "1e3", "3601", "", "9" * 400])
def test_a_time_out_of_bounds_is_a_usage_error(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_MAX_WAIT", value)
    with pytest.raises(UsageError, match=r"^max_wait=.* is not a number of seconds from 0.1 to 3"):
        main._setting("max_wait", 5.0)


@pytest.mark.parametrize(("value", "seconds"), [("2", 2.0), ("0.5", 0.5), ("3600", 3600.0)])
def test_a_time_is_a_number_of_seconds(
    value: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVER_MAX_WAIT", value)
    assert main._setting("max_wait", 5.0) == seconds


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("protect=perhaps", "no 'perhaps' in protect=: choose from yes, no"),
        ("max_wait=0", "max_wait='0' is not a number from 0.1 to 3600"),
        ("max_connections=0", "max_connections='0' is not a whole number from 1 to 65535"),
    ],
)
def test_a_wrong_setting_is_one_line(words: str, message: str) -> None:
    done = fab_here(f"run_server:3,noop_sync,{words}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr


def test_a_case_names_the_protection() -> None:
    case = _case.parse_case("3x16-protected/sleep_sync")
    assert case.settings == {"workers": 16, "protect": "yes"}
    assert case.name == "3x16-protected/sleep_sync"
    assert case.command == "run_server:3,sleep_sync,workers=16,protect=yes"
    with pytest.raises(UsageError, match="sync has no protection"):
        _case.parse_case("1-protected/sleep_sync")


def test_each_case_of_the_group_protection_has_a_pair() -> None:
    cases = tornado.GROUPS["protection"]
    names = [case.name for case in cases]
    assert len({*names}) == len(names) == 14
    for case in cases:
        index = _case.find_case(case.name, cases, "the group")
        assert cases[index] is case


@pytest.mark.server
def test_the_facts_have_the_settings_in_use(protected: Protected) -> None:
    running = protected("threads", "nap", max_wait=2.5)
    expected = {"protect": "yes", "max_wait": 2.5, "task_timeout": 30.0, "max_connections": 2048}
    assert expected.items() <= running.facts.items()


@pytest.mark.server
def test_the_facts_of_a_server_without_protection(protected: Protected) -> None:
    running = protected("threads", "nap", protect="no")
    assert running.facts["protect"] == "no"
    assert not {"max_wait", "protection"} & facts(running).keys()


@pytest.mark.server
def test_the_sync_server_has_no_protection(start: object) -> None:
    running = start("sync", "noop_sync")  # type: ignore[operator]
    assert (running.facts["protect"], running.facts["health"]) == ("not available",) * 2


@pytest.mark.server
def test_each_process_of_prefork_is_protected(protected: Protected) -> None:
    running = protected("prefork", "wait", processes=2, task_timeout=0.3)
    assert {get(running.url)[0] for _ in range(3)} == {504}
