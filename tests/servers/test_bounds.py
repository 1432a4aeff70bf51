"""Settings and ports out of bounds are refused before anything is started."""

from __future__ import annotations

import pytest

from offload.errors import UsageError
from offload.serving import main
from tests.servers.whole import begin, said_by

LONG = "9" * 5000


@pytest.mark.parametrize(
    ("setting", "value", "says"),
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
    setting: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"SERVER_{setting.upper()}", value)
    default = "forkserver" if setting == "start_method" else 4
    with pytest.raises(UsageError) as refused:
        main._setting(setting, default)
    line = str(refused.value)
    assert line.startswith(f"{setting}=")
    assert says in line
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
def test_a_server_says_in_one_line_which_setting_is_out_of_bounds() -> None:
    code, lines = said_by(begin("processes", "noop_sync", "0", SERVER_WORKERS="257"))
    assert (code, len(lines)) == (2, 1)
    assert "workers='257' is not a whole number from 1 to 256" in lines[0]


@pytest.mark.parametrize("port", ["-1", LONG, "\u0668\u0660", "", "http"])
def test_a_port_is_a_whole_number(port: str) -> None:
    assert main._whole(port) is None


@pytest.mark.server
@pytest.mark.parametrize("port", ["65536", "http"])
def test_a_port_out_of_bounds_is_a_usage_error(port: str) -> None:
    code, lines = said_by(begin("threads", "noop_sync", port))
    assert (code, len(lines)) == (2, 1)
    assert "with a port from 0 to 65535" in lines[0]
