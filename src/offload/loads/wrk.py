"""wrk: the load tool of most published rates; its latencies are partly made up, and not taken."""

from __future__ import annotations

import math
import re

from offload.flags import Flag
from offload.loads import Command, Load, Measured
from offload.loads._figures import COUNT, NUMBER
from offload.loads._validation import PLAIN
from offload.loads.engine.body import content_type
from offload.loads.engine.rates import quantum_of_count

TOOL = "wrk"
INSTALL = "sudo apt install wrk"
ASKED_VERSION = "-v"
MAX_USERS = 20_000
KEEPS = True
LACKS = {"requests": "number of requests", **PLAIN}
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
FINISHED = re.compile(rf"^ +{COUNT} requests in {NUMBER}(us|ms|s|m|h), ", re.MULTILINE)
ENDED = re.compile(r"^Requests/sec:", re.MULTILINE)  # behind every count
BROKEN = re.compile(
    rf"^ +Socket errors: connect {COUNT}, read {COUNT}, write {COUNT}, timeout {COUNT}$",
    re.MULTILINE,
)
NOT_2XX = re.compile(rf"^ +Non-2xx or 3xx responses: {COUNT}$", re.MULTILINE)


def command(load: Load) -> Command:
    """Ask on one connection for each user, in `processes` threads; a request is a line of Lua."""
    words = ["wrk", "-t", str(load.processes), "-c", str(load.users)]
    words += ["-d", f"{math.ceil(load.seconds or 0)}s", "--timeout", f"{math.ceil(load.timeout)}s"]
    files = {}
    if load.method != "GET" or load.body is not None:
        files["request.lua"] = _script(load)
        words += ["-s", "{folder}/request.lua"]
    return Command((*words, load.url), files=files)


def parse(stdout: str, stderr: str, load: Load) -> Measured:
    """Read wrk's text; a timeout is a slow answer to it, which it counts as well."""
    finished = FINISHED.search(stdout)
    if finished is None or not ENDED.search(stdout):
        last = ((stderr + stdout).strip().splitlines() or ["its output says why"])[-1]
        return Measured(problem=f"wrk printed no result: {last}")
    answered, elapsed = int(finished[1]), float(finished[2]) * UNITS[finished[3]]
    broken, odd = BROKEN.search(stdout), NOT_2XX.search(stdout)
    connect, read, write, late = map(int, broken.groups()) if broken else (0, 0, 0, 0)
    refused = int(odd[1]) if odd else 0
    completed = answered - refused
    ended = answered + connect + read + write
    whole = math.ceil(load.seconds or 0)
    notes = [] if whole == load.seconds else [Flag("rounded", f"{load.seconds:g} s became {whole}")]
    notes += [Flag("late", f"{late} answers took longer than the timeout")] if late else []
    is_clean = completed > 0 and ended == completed  # else its users did more than be answered
    return Measured(
        elapsed_s=elapsed,
        completed=completed,
        failed={
            "refused": connect,
            "reset": read + write,
            "4xx": None if refused else 0,  # it does not tell them apart
            "5xx": None if refused else 0,
            "other": refused,
            "unfinished": None,
        },
        availability=completed / ended if ended else None,
        rate=completed / elapsed if elapsed else None,
        rate_how="count / elapsed",
        rate_quantum=quantum_of_count(load.users, completed),
        window_s=elapsed,
        response_mean_s=load.users * elapsed / completed if is_clean else None,
        response_how="Little's law" if is_clean else None,
        notes=tuple(notes),
    )


def _script(load: Load) -> str:
    """Write a request in Lua, each byte of a string by its number."""
    lines = [f"wrk.method = {_lua(load.method)}"]
    if load.body is not None:
        lines += [f"wrk.body = {_lua(load.body)}"]
        lines += [f'wrk.headers["Content-Type"] = {_lua(content_type(load.body))}']
    return "\n".join([*lines, ""])


def _lua(text: str) -> str:
    return '"' + "".join(f"\\{byte:03d}" for byte in text.encode()) + '"'
