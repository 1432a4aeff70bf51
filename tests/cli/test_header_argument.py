"""Headers on the command line."""

from __future__ import annotations

import pytest

from offload.errors import UsageError
from offload.options import arguments
from tests.commands import fab
from tests.loads.conftest import Server


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("Accept: text/html", {"Accept": "text/html"}),
        ("A: 1;B:2; C: x:y", {"A": "1", "B": "2", "C": "x:y"}),
        ("Cookie: a=1; b=2;Accept: */*;q=0.5", {"Cookie": "a=1; b=2", "Accept": "*/*;q=0.5"}),
        ("X-Empty:", {"X-Empty": ""}),
    ],
)
def test_headers_are_separated_where_a_name_follows(text: str, expected: dict[str, str]) -> None:
    assert arguments.headers("header", text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [("nonsense", "has no name: write header='Name: value'"), ("A: 1; A: 2", "'A' twice")],
)
def test_what_is_no_header_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        arguments.headers("header", text)


@pytest.mark.server
def test_a_load_test_sends_headers_and_prints_no_secret() -> None:
    with Server() as server:
        url = server.url("/").replace("127.0.0.1", "user:hidden@127.0.0.1")
        said = fab(
            f"run_load_test:url={url},requests=4,users=2,driver=builtin",
            "--header=X-Key: a, secret; Accept: text/html, */*",
        )
        assert said.returncode == 0, said.stderr
        head = server.heads[-1].decode()
    assert "X-Key: a, secret\r\nAccept: text/html, */*\r\n" in head
    assert "Authorization: Basic dXNlcjpoaWRkZW4=\r\n" in head
    shown = said.stdout + said.stderr
    assert "hidden" not in shown and "secret" not in shown and "dXNlcjpoaWRkZW4" not in shown
    assert "X-Key: ***; Accept: text/html, */*; Authorization: ***" in shown
