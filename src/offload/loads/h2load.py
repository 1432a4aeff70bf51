"""h2load: the load tool of nghttp2, over HTTP/1.1, for servers above what the others can ask."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from offload.flags import Flag
from offload.loads import Command, Load, Measured
from offload.loads._figures import COUNT, NUMBER
from offload.loads.engine.body import content_type
from offload.loads.engine.rates import quantum_of_count

TOOL = "h2load"
INSTALL = "sudo apt install nghttp2-client"
MAX_USERS = 20_000
KEEPS = True
LACKS = {
    "rate": "open loop",
    "each": "warm-up of its own",
    "cycles": "window of cycles",
    "completions": "window of completions",
    "think": "think time",
    "ca": "check of certificates",
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
    """Ask over HTTP/1.1, one request at a time on each connection; `processes` are threads.

    Its `-N` is for how long a connection may be silent, which for one request is its timeout.
    """
    users = _users(load)
    words = ["h2load", "--h1", "-c", str(users), "-t", str(min(load.processes, users))]
    words += ["-N", f"{math.ceil(load.timeout)}s"]
    if load.requests is not None:
        words += ["-n", str(load.requests)]
    else:
        words += ["-D", _ms(load.seconds or 0.0)]
        words += ["--warm-up-time", _ms(load.warm)] if load.warm else []
    files = {}
    if load.body is not None:
        files["body"] = load.body
        words += ["-d", "{folder}/body", "-H", f"content-type: {content_type(load.body)}"]
    if load.method != "GET":
        words += ["-H", f":method: {load.method}"]
    return Command((*words, load.url), files=files)


def parse(stdout: str, stderr: str, load: Load) -> Measured:
    """Read h2load's text. With `-D` its own duration includes the warm-up, and its counts do not.

    It counts requests that were never sent as errored; how a connection failed it does not say.
    """
    finished, requests = FINISHED.search(stdout), REQUESTS.search(stdout)
    codes, times = CODES.search(stdout), TIMES.search(stdout)
    if finished is None or requests is None or codes is None or times is None:
        last = (stderr.strip().splitlines() or ["its output says why"])[-1]
        return Measured(problem=f"h2load printed no result: {last}")
    total, started, _, completed, _, errored, timeouts = map(int, requests.groups())
    refused, broken = (int(n) for n in codes.groups())
    elapsed = load.seconds if load.requests is None else _s(*finished.groups())
    unasked = max(0, total - started)
    lost = max(0, errored - timeouts - unasked)
    ended = completed + refused + broken + lost + timeouts
    measured = Measured(
        elapsed_s=elapsed,
        completed=completed,
        failed={
            "refused": None if lost or unasked else 0,
            "reset": None if lost or unasked else 0,
            "timeout": timeouts,
            "4xx": refused,
            "5xx": broken,
            "other": lost,
            "unfinished": None,
        },
        availability=completed / ended if ended else None,
        rate=completed / elapsed if elapsed else None,
        rate_how="count / elapsed",
        rate_quantum=quantum_of_count(load.users, completed),
        window_s=elapsed,
        problem=f"h2load asked {started} of {total}: connections failed" if unasked else None,
        notes=_notes(load),
    )
    if not completed or refused or broken:  # its times are of all answers
        return measured
    _, most, mean = (_s(*times.group(n, n + 1)) for n in (1, 3, 5))
    return replace(measured, response_mean_s=mean, response_how="h2load's own", response_max_s=most)


def _users(load: Load) -> int:
    return load.users if load.requests is None else min(load.users, load.requests)


def _notes(load: Load) -> tuple[Flag, ...]:
    """Say when there were less users, since h2load refuses more than there are requests."""
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
