"""Check that a printed handler runs unchanged and reaches the rate of its answer.

Arguments of python -m lab handler_rate:

ANSWER.json             the output of fab advise:TASK,code=..,format=json
ANSWER.json --beside    compare it with the strategy's own server instead

The program is saved in an empty folder, started on a free port, loaded with builtin, and stopped by
SIGTERM. The exit code is 1 if the rate is more than 15 % below that of the answer, if a response
failed, or if a process or a temporary file is left.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from offload import loads
from offload.engine import server
from offload.engine.server import hold_for
from offload.errors import GateError, RunError, StartError, UsageError
from offload.loads import Load, Window
from offload.registry import catalog
from offload.suites import Case
from scripts.script import run

PORT = re.compile(r"(?<=[ (:])8000(?=[ ,)\n]|$)")  # in programs and commands
READY_S = 60.0  # timeout in s of the first response
END_S = 20.0  # timeout in s from SIGTERM until no process is left
WARM_S = 1.0  # s of load before the rate is measured
LOWEST = 0.85  # minimum share of the answer's rate
ROUNDS = 3


@contextmanager
def deployed(
    handler: Mapping[str, Any], folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Start a printed handler in an empty folder, changing only its port; yield its URL.

    Its output is written to `folder`.log. Raise StartError if it does not respond. Raise GateError
    if it leaves a process or a temporary file, or if SIGTERM does not stop it with the usual code.
    """
    port, mark = _free_port(), f"HANDLER_{uuid.uuid4().hex}"
    folder.mkdir()
    (folder / handler["file"]).write_text(PORT.sub(str(port), handler["code"]))
    words = ["sh", "-c", f"exec env {PORT.sub(str(port), handler['start'])}"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    with tempfile.TemporaryDirectory() as home, folder.with_suffix(".log").open("wb") as log:
        temporary = Path(home, "tmp")
        temporary.mkdir()
        own = {**os.environ, **(environment or {}), "PATH": path, "HOME": home, mark: "1"}
        own["TMPDIR"] = str(temporary)
        process = subprocess.Popen(
            words, cwd=folder, env=own, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            _await_response(process, port, folder.with_suffix(".log"))
            yield f"http://127.0.0.1:{port}/"
            process.send_signal(signal.SIGTERM)
            _await_end(process, mark)
            if files := [each.name for each in temporary.iterdir()]:
                raise GateError(f"left in the folder of temporary files: {', '.join(files)}")
        finally:
            for each in _marked(mark):
                each.kill()
            process.kill()
            process.wait()


def rate(url: str, users: int, seconds: float) -> float:
    """Return the rate of a handler in requests/s under the load of an answer; raise RunError."""
    load = Load(url, users, seconds, window=Window(warm=WARM_S))
    found = loads.run(load, "builtin").result
    figures = found.figures
    counts = figures.failed.items()  # unfinished requests were sent just before the end
    failed = {kind: count for kind, count in counts if count and kind != "unfinished"}
    if found.problem is not None or figures.rate is None or failed:
        raise RunError(f"the load failed: {found.problem or failed or 'no rate'}")
    return figures.rate


def get(url: str) -> tuple[int, bytes]:
    """Send one request; return the status and body of its response."""
    host = url.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(host, timeout=30)
    try:
        connection.request("GET", "/")
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def main(words: list[str]) -> int:
    """Measure, print both rates and return the exit code."""
    options = _options(words)
    answer = _answer(options.answer)
    case = _case(answer, options.users, options.path)
    known = answer["rate"]
    reached = []
    with tempfile.TemporaryDirectory() as folder, hold_for(case) as upstream:
        settings = {} if upstream is None else upstream.environment()
        for number in range(ROUNDS if options.beside else 1):
            if options.beside:
                running = server.start(case, settings)
                try:
                    known = rate(running.url, options.users, options.seconds)
                finally:
                    server.stop(running)
            with deployed(answer["handler"], Path(folder, f"round-{number}"), settings) as url:
                reached.append(rate(url, options.users, options.seconds) / known)
            print(f"{known * reached[-1]:.4g}/s, {reached[-1]:.2f} of {known:.4g}/s", flush=True)
    if statistics.median(reached) < LOWEST:
        raise GateError(f"the handler reaches {statistics.median(reached):.2f} of the rate")
    return 0


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="handler_rate.py")
    parser.add_argument("answer", type=Path)
    parser.add_argument("--beside", action="store_true", help="compare with the strategy's server")
    parser.add_argument("--users", type=int, default=25, help="number of users, as in the answer")
    parser.add_argument("--seconds", type=float, default=5.0, help="of load; default: 5")
    parser.add_argument("--path", default=None, help="path= of the advised command")
    return parser.parse_args(words)


def _answer(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not the JSON of an answer: {error}") from None
    if not isinstance(found, dict) or not found.get("handler"):
        raise UsageError(f"{path} has no handler", "print the answer with code=tornado,format=json")
    return found


def _case(answer: Mapping[str, Any], users: int, path: str | None) -> Case:
    known = catalog.find_server(answer["server"]).settings
    settings = {name: answer[name] for name in ("processes", "workers") if name in known}
    return Case(answer["server"], answer["task"], users=users, settings=settings, path=path)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_response(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + READY_S
    while time.monotonic() < until and process.poll() is None:
        try:
            get(f"http://127.0.0.1:{port}/")
        except (OSError, http.client.HTTPException):
            time.sleep(0.05)
        else:
            return
    last = log.read_text(errors="replace").strip().splitlines()[-1:]
    state = "did not answer" if process.poll() is None else f"ended with {process.poll()}"
    raise StartError(f"the handler {state}: {' '.join(last)[:200]}")


def _await_end(process: subprocess.Popen[bytes], mark: str) -> None:
    until = time.monotonic() + END_S
    while time.monotonic() < until:
        if process.poll() is not None and not _marked(mark):
            break
        time.sleep(0.05)
    if left := _marked(mark):
        names = "; ".join(" ".join(each.cmdline())[:80] for each in left)
        raise GateError(f"left {END_S:.0f} s after SIGTERM: {names}")
    # after its shutdown, uvicorn sends the signal to itself
    if process.poll() not in (0, -signal.SIGTERM):
        raise GateError(f"the handler ended with {process.poll()} after SIGTERM")


def _marked(mark: str) -> list[psutil.Process]:
    """Return the living processes that a handler started."""
    found = []
    for each in psutil.process_iter():
        try:
            if mark in each.environ() and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each)
        except psutil.Error:
            continue
    return found


if __name__ == "__main__":
    run(main)
