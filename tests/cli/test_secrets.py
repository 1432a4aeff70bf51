"""No secret of a request is printed, recorded or reported; a masked run is not resumed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.commands import FAB
from tests.installed import require
from tests.loads.conftest import Server

SECRETS = ("headersecret", "querysecret", "bodysecret", "encodedsecret")
QUERY = "/quote?api_key=querysecret&size=2&to=http%3A%2F%2Fx%2F%3Ftoken%3Dencodedsecret"
BODY = '{"password": "bodysecret"}'
APP = """
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    message = await receive()
    right = b"querysecret" in scope["query_string"] and b"bodysecret" in message["body"]
    right = right and b"headersecret" in dict(scope["headers"]).get(b"x-key", b"")
    status = 200 if right else 500
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FAB, *words],
        env={**os.environ, "RESULTS": str(folder / "results")},
        capture_output=True,
        text=True,
        timeout=58,
    )


def leaks(folder: Path, said: subprocess.CompletedProcess[str]) -> set[tuple[str, str]]:
    """Return where each secret is found: in the output, or in a file of the results."""
    files = [path for path in (folder / "results").rglob("*") if path.is_file()]
    texts = {"stdout": said.stdout, "stderr": said.stderr}
    texts |= {str(path): path.read_text("utf-8", "replace") for path in files}
    return {
        (where, secret) for where, text in texts.items() for secret in SECRETS if secret in text
    }


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    """The options of a request whose secrets are in files."""
    for name, text in {
        "header": "X-Key: headersecret\nAccept: text/html\n",
        "request": f"{QUERY}\n",
        "body": BODY,
    }.items():
        (tmp_path / name).write_text(text)
    return [f"--{name}=@{tmp_path}/{name}" for name in ("header", "request", "body")]


@pytest.mark.server
def test_a_measured_task_leaves_no_secret(tmp_path: Path, given: list[str]) -> None:
    said = run(tmp_path, "measure:3/noop_sync,quick=yes", given[0], f"--request=/{QUERY[6:]}")
    assert said.returncode == 0, said.stderr
    assert leaks(tmp_path, said) == set()
    [folder] = (tmp_path / "results").glob("*-measure")
    resumed = run(tmp_path, f"resume:{folder.name}")
    assert resumed.returncode == 0, resumed.stderr  # it is finished: only its answer is printed
    assert leaks(tmp_path, resumed) == set()


@pytest.mark.server
@pytest.mark.suites
def test_a_measured_application_leaves_no_secret(tmp_path: Path, given: list[str]) -> None:
    require("uvicorn_h11")
    (tmp_path / "shop.py").write_text(APP)
    case = f"measure:uvicorn_h11,app={tmp_path}/shop.py:app,quick=yes"
    said = run(tmp_path, case, *given)
    assert said.returncode == 0, said.stderr
    assert leaks(tmp_path, said) == set()
    [folder] = (tmp_path / "results").glob("*-measure")
    sent = json.loads((folder / "records.jsonl").read_text().splitlines()[0])["case"]["request"]
    digest = hashlib.sha256(BODY.encode()).hexdigest()
    assert sent["body"] == f"sha256:{digest}, {len(BODY)} bytes"
    assert sent["path"] == "/quote?api_key=***&size=2&to=***"
    assert sent["header"] == "X-Key: ***; Accept: text/html"
    for words in (["report"], ["report", "--format=json"], ["report", "--format=html"]):
        shown = run(tmp_path, *words)
        assert shown.returncode == 0, shown.stderr
        assert leaks(tmp_path, shown) == set()
    resumed = run(tmp_path, f"resume:{folder.name}")
    assert resumed.returncode == 0, resumed.stderr  # it is finished: only its answer is printed
    assert leaks(tmp_path, resumed) == set()


@pytest.mark.server
@pytest.mark.suites
def test_an_error_has_no_secret(tmp_path: Path, given: list[str]) -> None:
    require("uvicorn_h11")
    (tmp_path / "shop.py").write_text(APP.replace("200 if right else 500", "404"))
    said = run(tmp_path, f"measure:uvicorn_h11,app={tmp_path}/shop.py:app,quick=yes", *given)
    assert said.returncode == 5
    assert "the application has no POST /quote?api_key=***" in said.stderr
    assert leaks(tmp_path, said) == set()


@pytest.mark.server
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_load_test_leaves_no_secret(tmp_path: Path, given: list[str], form: str) -> None:
    with Server() as server:
        server.answers[QUERY] = server.answers["/"]
        (tmp_path / "url").write_text(server.url("/").removesuffix("/") + QUERY)
        options = f"users=2,requests=4,driver=builtin,format={form}"
        said = run(tmp_path, f"run_load_test:url=@{tmp_path}/url,{options}", given[0], given[2])
        assert said.returncode == 0, said.stderr
        assert server.bodies[-1] == BODY.encode()
        assert b"X-Key: headersecret\r\n" in server.heads[-1]
        assert server.heads[-1].startswith(f"POST {QUERY} HTTP/1.1".encode())
    assert leaks(tmp_path, said) == set()
    refused = run(tmp_path, f"run_load_test:url=@{tmp_path}/url,{options}")
    assert refused.returncode == 5
    assert leaks(tmp_path, refused) == set()


@pytest.mark.parametrize(
    "words",
    [
        ["run_load_test:url=http://no.such.invalid/?token=querysecret"],
        ["run_load_test:url=ftp://127.0.0.1/?token=querysecret"],
        ["run_load_test:url=http://10.0.0.1/?token=querysecret"],
        ["run_load_test:url=http://127.0.0.1:1/?token=querysecret"],
        ["watch:url=http://u:headersecret@127.0.0.1:1/?token=querysecret"],
        ["watch:url=ftp://u:headersecret@127.0.0.1:1/?token=querysecret"],
        ["measure:3/noop_sync,request=quote?token=querysecret"],
        ["measure:3/noop_sync", "--request=/quote?token=querysecret x"],
        ["measure:3/noop_sync", "--header=headersecret"],
        ["measure:3/noop_sync", "--header=Host: headersecret"],
    ],
)
def test_a_wrong_option_has_no_secret(tmp_path: Path, words: list[str]) -> None:
    said = run(tmp_path, *words)
    assert said.returncode in (2, 5)
    assert len(said.stderr.splitlines()) == 1
    assert leaks(tmp_path, said) == set()
