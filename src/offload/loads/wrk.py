"""wrk: the load tool of most published rates. Its latencies are partly estimated and not used."""

from __future__ import annotations

import math
import re
from urllib.parse import urlsplit

from offload.errors import Flag
from offload.loads import (
    CLOSED_LOOP_ONLY,
    COUNT,
    NUMBER,
    Command,
    Load,
    LoadResult,
    Message,
    Response,
    count_figures,
    has_secret,
    request_target,
)

TOOL = "wrk"
INSTALL = "sudo apt install wrk"
VERSION_OPTION = "-v"
MAX_USERS = 20_000
ALWAYS_KEEP_ALIVE = True
LACKS = {"requests": "number of requests", **CLOSED_LOOP_ONLY}
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
MINUTES = ("m", "h")  # times from 51 s on are printed in these units, rounded to 0.6 s or more
PRECISE_RATE = 10.0  # 1/s: the printed rate has an error of at most 0.05 % above it
FINISHED = re.compile(rf"^ +{COUNT} requests in {NUMBER}(us|ms|s|m|h), ", re.MULTILINE)
ENDED = re.compile(rf"^Requests/sec: +{NUMBER}$", re.MULTILINE)  # printed after every count
BROKEN = re.compile(
    rf"^ +Socket errors: connect {COUNT}, read {COUNT}, write {COUNT}, timeout {COUNT}$",
    re.MULTILINE,
)
NOT_2XX = re.compile(rf"^ +Non-2xx or 3xx responses: {COUNT}$", re.MULTILINE)


def command(load: Load) -> Command:
    """Run one connection per user in `processes` threads; a Lua script sets other requests."""
    argv = ["wrk", "-t", str(load.processes), "-c", str(_users(load))]
    argv += ["-d", f"{math.ceil(load.seconds or 0)}s", "--timeout", f"{math.ceil(load.timeout)}s"]
    files = {}
    url, parts = load.url, urlsplit(load.url)
    is_secret = has_secret(url)
    if load.message != Message() or is_secret:
        files["request.lua"] = _script(load)
        argv += ["-s", "{folder}/request.lua"]
    if is_secret:
        files["request.lua"] += f"wrk.path = {_lua(request_target(parts))}\n"
        url = f"{parts.scheme}://{parts.netloc}/"
    return Command((*argv, url), files=files, threads=load.processes)


def parse(stdout: str, stderr: str, load: Load) -> LoadResult:
    """Parse wrk's text; wrk counts a request that exceeded the timeout as completed, too."""
    finished = FINISHED.search(stdout)
    ended_line = ENDED.search(stdout)
    if finished is None or ended_line is None:
        last = ((stderr + stdout).strip().splitlines() or ["see its output"])[-1]
        return LoadResult(problem=f"wrk printed no result: {last}")
    answered, elapsed = int(finished[1]), float(finished[2]) * UNITS[finished[3]]
    printed_rate = float(ended_line[1])
    if finished[3] in MINUTES and printed_rate >= PRECISE_RATE:
        elapsed = answered / printed_rate
    broken, odd = BROKEN.search(stdout), NOT_2XX.search(stdout)
    connect, read, write, late = map(int, broken.groups()) if broken else (0, 0, 0, 0)
    refused = int(odd[1]) if odd else 0
    completed = answered - refused
    ended = answered + connect + read + write
    whole = math.ceil(load.seconds or 0)
    notes = [] if whole == load.seconds else [Flag("rounded", f"{load.seconds:g} s became {whole}")]
    users = _users(load)
    if users != load.users:
        notes.append(Flag("users", f"{users} sent requests instead of {load.users}"))
    notes += [Flag("late", f"{late} responses took longer than the timeout")] if late else []
    is_clean = completed > 0 and ended == completed  # else failures also took users' time
    return LoadResult(
        count_figures(
            users,
            elapsed,
            completed,
            ended,
            {
                "refused": connect,
                "reset": read + write,
                "4xx": None if refused else 0,  # wrk does not distinguish them
                "5xx": None if refused else 0,
                "other": refused,
                "unfinished": None,
            },
            window_s=elapsed,
            response=Response(users * elapsed / completed, "Little's law")
            if is_clean
            else Response(),
        ),
        notes=tuple(notes),
    )


def _users(load: Load) -> int:
    """Return the number of connections, which must be the same for all threads of wrk."""
    return load.users - load.users % load.processes


def _script(load: Load) -> str:
    """Return a Lua script of the request; strings are escaped byte by byte."""
    lines = [f"wrk.method = {_lua(load.message.method)}"]
    if load.message.body is not None:
        lines += [f"wrk.body = {_lua(load.message.body)}"]
    if load.message.content_type is not None:
        lines += [f'wrk.headers["Content-Type"] = {_lua(load.message.content_type)}']
    for name, value in load.message.headers.items():
        if name.lower() != "content-type":
            lines += [f"wrk.headers[{_lua(name)}] = {_lua(value)}"]
    return "\n".join([*lines, ""])


def _lua(text: str) -> str:
    return '"' + "".join(f"\\{byte:03d}" for byte in text.encode()) + '"'
