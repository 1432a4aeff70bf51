"""h2load: nghttp2's load tool, with HTTP/1.1, for servers that are faster than other tools."""

from __future__ import annotations

import math
import re

from offload.errors import Flag
from offload.loads import (
    COUNT,
    NUMBER,
    Command,
    Load,
    LoadResult,
    Response,
    count_figures,
    has_secret,
)

TOOL = "h2load"
INSTALL = "sudo apt install nghttp2-client"
MAX_USERS = 20_000
ALWAYS_KEEP_ALIVE = True
LACKS = {
    "arrivals": "open loop",
    "each": "warm-up of its own",
    "cycles": "window of cycles",
    "completions": "window of completions",
    "think": "think time",
}
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
TIME = rf"{NUMBER}(us|ms|s)"
FINISHED = re.compile(rf"^finished in {TIME}, ", re.MULTILINE)
REQUESTS = re.compile(
    rf"^requests: {COUNT} total, {COUNT} started, {COUNT} done, {COUNT} succeeded, "
    rf"{COUNT} failed, {COUNT} errored, {COUNT} timeout$",
    re.MULTILINE,
)
CODES = re.compile(rf"^status codes: \d+ 2xx, \d+ 3xx, {COUNT} 4xx, {COUNT} 5xx$", re.MULTILINE)
TIMES = re.compile(rf"^time for request: +{TIME} +{TIME} +{TIME} ", re.MULTILINE)


def command(load: Load) -> Command:
    """Send over HTTP/1.1, one request at a time on each connection; `processes` are threads.

    `-N` limits the time for which a connection may be idle, which is the timeout of a request.
    """
    users = _users(load)
    threads = min(load.processes, users)
    argv = ["h2load", "--h1", "-c", str(users), "-t", str(threads)]
    argv += ["-N", f"{math.ceil(load.timeout)}s"]
    if load.requests is not None:
        argv += ["-n", str(load.requests)]
    else:
        argv += ["-D", _ms(load.seconds or 0.0)]
        argv += ["--warm-up-time", _ms(load.window.warm)] if load.window.warm else []
    files = {}
    if load.message.body is not None:
        files["body"] = load.message.body
        argv += ["-d", "{folder}/body"]
    if load.message.content_type is not None:
        argv += ["-H", f"content-type: {load.message.content_type}"]
    if load.message.method != "GET":
        argv += ["-H", f":method: {load.message.method}"]
    argv += [word for line in load.message.lines for word in ("-H", line)]
    if has_secret(load.url):
        files["urls"] = f"{load.url}\n"
        return Command((*argv, "-i", "{folder}/urls"), files=files, threads=threads)
    return Command((*argv, load.url), files=files, threads=threads)


def parse(stdout: str, stderr: str, load: Load) -> LoadResult:
    """Parse h2load's text. With `-D` its duration includes the warm-up, but its counts do not.

    h2load counts requests that were never sent as errored, and does not report kinds of failures.
    """
    finished, requests = FINISHED.search(stdout), REQUESTS.search(stdout)
    codes, times = CODES.search(stdout), TIMES.search(stdout)
    if finished is None or requests is None or codes is None or times is None:
        last = (stderr.strip().splitlines() or ["see its output"])[-1]
        return LoadResult(problem=f"h2load printed no result: {last}")
    total, started, _, completed, _, errored, timeouts = map(int, requests.groups())
    refused, broken = (int(n) for n in codes.groups())
    elapsed = load.seconds if load.requests is None else _s(*finished.groups())
    unsent = max(0, total - started)
    lost = max(0, errored - timeouts - unsent)
    ended = completed + refused + broken + lost + timeouts
    response = Response()
    if completed and not refused and not broken:  # h2load's times include failed responses
        _, longest, mean = (_s(*times.group(n, n + 1)) for n in (1, 3, 5))
        response = Response(mean, "h2load's own", max_s=longest)
    figures = count_figures(
        load.users,
        elapsed,
        completed,
        ended,
        {
            "refused": None if lost or unsent else 0,
            "reset": None if lost or unsent else 0,
            "timeout": timeouts,
            "4xx": refused,
            "5xx": broken,
            "other": lost,
            "unfinished": None,
        },
        window_s=elapsed,
        response=response,
    )
    problem = f"h2load sent {started} of {total}: connections failed" if unsent else None
    return LoadResult(figures, problem=problem, notes=_notes(load))


def _users(load: Load) -> int:
    return load.users if load.requests is None else min(load.users, load.requests)


def _notes(load: Load) -> tuple[Flag, ...]:
    """Return a flag if users were omitted: h2load refuses to run more users than requests."""
    users = _users(load)
    return (
        ()
        if users == load.users
        else (Flag("users", f"{users} sent requests instead of {load.users}"),)
    )


def _ms(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


def _s(number: str, unit: str) -> float:
    return round(float(number) * UNITS[unit], 9)
