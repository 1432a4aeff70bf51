"""Headers reach the server; credentials do not reach records."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import pairwise

import pytest

from offload import loads
from offload.engine import running_servers
from offload.engine.record import to_line
from offload.errors import UsageError
from offload.loads import Load, Message, ab, h2load, locust, siege, wrk
from tests.installed import lacks
from tests.loads.conftest import Server, run_here

HERE = "http://127.0.0.1/"
LOAD = Load(HERE, users=2, seconds=None, requests=4, keep_alive=True)
BASIC = "Basic dXNlcjpwQHNz"  # user:p@ss
SECRET, PLAIN = "Bearer abc.def-123", "text/html;q=0.5, */*"
HEADERS = {"Authorization": SECRET, "Accept": PLAIN}
INSTALLED = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=lacks(name)))
    for name in ("siege", "ab", "wrk", "h2load")
]


def sent(head: bytes) -> dict[str, list[str]]:
    """Return the values of each header of a request."""
    found: dict[str, list[str]] = {}
    for line in head.decode().splitlines()[1:]:
        name, colon, value = line.partition(":")
        if colon:
            found.setdefault(name.lower(), []).append(value.strip())
    return found


def test_credentials_in_a_url_become_a_header() -> None:
    load = Load("http://user:p%40ss@127.0.0.1:8000/x?y=a@b")
    assert load.url == "http://127.0.0.1:8000/x?y=a@b"
    assert load.message.headers == {"Authorization": BASIC}
    assert replace(LOAD, url="http://user:p%40ss@127.0.0.1/").message == load.message
    own = Message(headers={"authorization": SECRET})
    assert Load("http://user:p%40ss@127.0.0.1/", message=own).message == own
    assert Load("http://127.0.0.1/@/").url == "http://127.0.0.1/@/"


@pytest.mark.server
def test_credentials_are_no_part_of_host(server: Server) -> None:
    url = server.url("/").replace("127.0.0.1", "user:p%40ss@127.0.0.1")
    run_here(replace(LOAD, url=url))
    head = sent(server.heads[-1])
    assert head["host"] == [f"127.0.0.1:{server.port}"]
    assert head["authorization"] == [BASIC]


@pytest.mark.server
def test_headers_replace_those_of_the_tool(server: Server) -> None:
    headers = {"accept": PLAIN, "User-Agent": "mine", "X-One": "1", "content-type": "text/csv"}
    run_here(replace(LOAD, url=server.url("/"), message=Message("POST", "a,b", headers)))
    head = sent(server.heads[-1])
    assert {name.lower(): head[name.lower()] for name in headers} == {
        name.lower(): [value] for name, value in headers.items()
    }


@pytest.mark.server
@pytest.mark.suites
@pytest.mark.parametrize("driver", ["builtin", *INSTALLED])
@pytest.mark.parametrize("message", [Message(), Message("POST", "a,b")])
def test_each_tool_sends_headers(server: Server, driver: str, message: Message) -> None:
    kind = {"Content-Type": "text/csv"} if message.body else {}
    message = replace(message, headers={**HEADERS, **kind})
    load = replace(LOAD, url=server.url("/http10" if driver == "ab" else "/"), message=message)
    if driver == "wrk":
        load = replace(load, requests=None, seconds=1.0)
    ran = loads.run(load, driver)
    assert (ran.result.problem, ran.result.figures.availability) == (None, 1.0)
    head = sent(server.heads[-1])
    assert head["authorization"] == [SECRET]
    assert PLAIN in head["accept"]
    assert head.get("content-type", [None]) == [kind.get("Content-Type")]
    assert "abc.def" not in str(ran)


@pytest.mark.server
@pytest.mark.skipif(shutil.which("siege") is None, reason=lacks("siege"))
def test_a_body_that_is_no_text_is_sent(server: Server) -> None:
    message = Message("POST", "caf\udce9")  # an argument with a byte that is not UTF-8
    ran = loads.run(replace(LOAD, url=server.url("/"), message=message), "siege")
    assert (ran.result.problem, ran.result.figures.availability) == (None, 1.0)
    assert server.bodies[-1] == b"caf\xe9"


@pytest.mark.parametrize("driver", [ab, h2load])
def test_headers_are_arguments(driver: object) -> None:
    argv = driver.command(replace(LOAD, message=Message(headers=HEADERS))).argv  # type: ignore[attr-defined]
    found = [text for option, text in pairwise(argv) if option in ("-H", "--header")]
    assert found == [f"Authorization: {SECRET}", f"Accept: {PLAIN}"]


def test_siege_gets_secrets_by_its_configuration() -> None:
    command = siege.command(replace(LOAD, message=Message(headers=HEADERS)))
    assert f"header = Authorization: {SECRET}\n" in command.files["siege.conf"]
    assert command.argv[-3:] == ("--header", f"Accept: {PLAIN}", LOAD.url)


def test_locust_gets_headers_by_a_file() -> None:
    message = Message("POST", "{}", HEADERS)
    request = json.loads(locust.command(replace(LOAD, message=message)).files["request.json"])
    assert request["headers"] == {**HEADERS, "Content-Type": "application/json"}


def test_headers_are_lines_of_lua() -> None:
    command = wrk.command(replace(LOAD, message=Message(headers={"X-A": "1"})))
    assert 'wrk.headers["\\088\\045\\065"] = "\\049"' in command.files["request.lua"]


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"X y": "1"}, "header 'X y': invalid name: write"),
        ({"": "1"}, "invalid name"),
        ({"X": "1\r\nY: 2"}, "header X: its value is not printable ASCII: encode its value"),
        ({"X": "\u00fc"}, "header X: its value is not printable ASCII"),
        ({"Host": "x"}, "header Host: the load tool sets it"),
        ({"content-length": "1"}, "header content-length: the load tool sets it"),
        ({"X": "1", "x": "2"}, "header x: set twice"),
    ],
)
def test_what_no_tool_can_send_is_refused(headers: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        loads.check(replace(LOAD, message=Message(headers=headers)), "builtin")


@pytest.mark.server
def test_no_secret_is_recorded(server: Server) -> None:
    headers = {"Cookie": "session=0123456789", "X-Key": "abcdefgh", "Accept": PLAIN}
    url = server.url("/").replace("127.0.0.1", "user:p%40ss@127.0.0.1")
    load = replace(LOAD, url=url, message=Message(headers=headers))
    record = running_servers.load_url(load, "builtin")
    assert record.result.completed == 4
    line = to_line(record)
    for secret in ("p%40ss", "p@ss", BASIC.split()[1], "0123456789", "abcdefgh"):
        assert secret not in line
    assert PLAIN in line
    assert record.case.id == (
        f"url/{server.url('/')} Cookie: ***; X-Key: ***; Accept: {PLAIN}; Authorization: ***"
    )


@pytest.mark.server
def test_a_secret_in_the_output_of_a_tool_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "import sys; print(sys.argv[1]); sys.exit('bad header ' + sys.argv[1])"

    def command(load: Load) -> loads.Command:
        return loads.Command(("python3", "-c", said, load.message.headers["Authorization"]))

    monkeypatch.setattr(ab, "command", command)
    monkeypatch.setattr(ab, "TOOL", "python3")
    ran = loads.run(replace(LOAD, message=Message(headers=HEADERS)), "ab")
    assert ran.argv[-1] == "***"
    assert ran.output.count("Bearer ***") == 2
    assert ran.result.problem == "ab printed no result: bad header Bearer ***"


JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"


@pytest.mark.parametrize(
    ("headers", "body", "url", "echoed"),
    [
        ({"Authorization": f"Bearer {JWT}"}, None, "", JWT),
        ({"Authorization": f"Bearer {JWT}"}, None, "", f"'{JWT[:30]}"),
        ({"Authorization": BASIC}, None, "", "p@ss"),
        ({"Cookie": "theme=dark; sid=0123456789"}, None, "", "0123456789"),
        ({}, '{"user": {"password": "hun\\"ter2"}}', "", 'hun"ter2'),
        ({}, "user=a&password=hun%20ter2", "", "hun ter2"),
        ({}, None, "http://127.0.0.1/?api_key=s3cr%2Bet", "s3cr+et"),
        ({}, None, "/?api_key=s3cret&x=1", "s3cret"),
    ],
)
def test_a_secret_that_an_application_repeats_alone_is_masked(
    headers: dict[str, str], body: str | None, url: str, echoed: str
) -> None:
    text = Message("POST", body, headers).mask(f"ValueError: {echoed} is wrong (web.py:7)", url)
    assert text in ("ValueError: *** is wrong (web.py:7)", "ValueError: '*** is wrong (web.py:7)")


def test_what_is_too_short_for_a_secret_is_not_masked_in_other_texts() -> None:
    assert (
        Message(headers={"X-Debug": "1"}).mask("answered 511: 1 of 10") == "answered 511: 1 of 10"
    )
