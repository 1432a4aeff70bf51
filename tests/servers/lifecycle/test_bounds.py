"""Settings and ports out of range are rejected before anything is started."""

from __future__ import annotations

import os
import resource
import socket
from unittest.mock import Mock

import pytest

from offload.errors import UsageError
from offload.serving import main
from offload.serving.pools import pool_workers, recovery
from tests.servers.lifecycle.command_line import begin, wait_for_end

LONG = "9" * 5000


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("workers", "0", "from 1 to 256"),
        ("workers", "257", "from 1 to 256"),
        ("workers", LONG, "from 1 to 256"),
        ("workers", "\u0664", "from 1 to 256"),
        ("backlog", "-1", "from 1 to 65535"),
        ("backlog", "65536", "from 1 to 65535"),
        ("start_method", "x\ny", "not one of"),
    ],
    ids=lambda value: ascii(value)[:12],
)
def test_a_setting_out_of_bounds_is_a_usage_error(
    setting: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"SERVER_{setting.upper()}", value)
    default = "forkserver" if setting == "start_method" else 4
    with pytest.raises(UsageError) as refused:
        main._setting(setting, default)
    line = str(refused.value)
    assert line.startswith(f"{setting}=")
    assert message in line
    assert (line.count("\n"), len(line) < 200) == (0, True)


@pytest.mark.parametrize(
    ("setting", "value", "read"),
    [("workers", "256", 256), ("backlog", "65535", 65535), ("start_method", "spawn", "spawn")],
)
def test_a_setting_within_bounds_is_read(
    setting: str, value: str, read: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"SERVER_{setting.upper()}", value)
    default = "forkserver" if setting == "start_method" else 4
    assert main._setting(setting, default) == read


@pytest.mark.server
def test_a_server_reports_in_one_line_which_setting_is_out_of_bounds() -> None:
    code, lines = wait_for_end(begin("processes", "noop_sync", "0", SERVER_WORKERS="257"))
    assert (code, len(lines)) == (2, 1)
    assert "workers='257' is not a whole number from 1 to 256" in lines[0]


@pytest.mark.parametrize("port", ["-1", LONG, "\u0668\u0660", "", "http"])
def test_a_port_is_a_whole_number(port: str) -> None:
    assert main._whole(port) is None


@pytest.mark.server
@pytest.mark.parametrize("port", ["65536", "http"])
def test_a_port_out_of_bounds_is_a_usage_error(port: str) -> None:
    code, lines = wait_for_end(begin("threads", "noop_sync", port))
    assert (code, len(lines)) == (2, 1)
    assert "with a port from 0 to 65535" in lines[0]


@pytest.mark.parametrize(
    ("refused", "expected"), [((), resource.RLIM_INFINITY), ((resource.RLIM_INFINITY,), 10_240)]
)
def test_a_server_raises_its_limit_of_open_files_as_far_as_it_may(
    monkeypatch: pytest.MonkeyPatch, refused: tuple[int, ...], expected: int
) -> None:
    """macOS starts with 256 files and refuses its own hard limit."""
    limits = [(256, resource.RLIM_INFINITY)]

    def setrlimit(what: int, limit: tuple[int, int]) -> None:
        if limit[0] in refused:
            raise ValueError("current limit exceeds maximum limit")
        limits.append(limit)

    monkeypatch.setattr(resource, "getrlimit", lambda what: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    main._raise_file_limit()
    assert limits[-1] == (expected, resource.RLIM_INFINITY)


@pytest.mark.parametrize("listed", [True, False])
def test_open_files_are_found_with_and_without_a_folder_of_them(
    monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    if not listed:
        monkeypatch.setattr(os, "listdir", Mock(side_effect=FileNotFoundError))
    with socket.socket() as opened:
        assert opened.fileno() in recovery._open_files()


def test_idempotent_is_yes_or_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_IDEMPOTENT", "perhaps")
    with pytest.raises(UsageError, match="idempotent='perhaps' is neither yes nor no"):
        main._setting("idempotent", "")


@pytest.mark.parametrize(
    ("task", "idempotent", "expected"),
    [
        ("noop_sync", "", True),
        ("noop_sync", "no", False),
        ("shop:charge", "", False),
        ("shop:charge", "yes", True),
        ("/a/shop.py:charge", "", False),
    ],
)
def test_a_users_task_runs_again_only_on_request(
    task: str, idempotent: str, expected: bool
) -> None:
    assert pool_workers.may_run_twice(task, idempotent) is expected
