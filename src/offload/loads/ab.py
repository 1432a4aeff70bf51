"""ab: ApacheBench, with one thread and HTTP/1.0; it reports times in whole milliseconds."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from offload.errors import Flag
from offload.loads import (
    CLOSED_LOOP_ONLY,
    COUNT,
    NUMBER,
    Command,
    Load,
    LoadResult,
    Response,
    content_type,
    count_figures,
)

TOOL = "ab"
INSTALL = "sudo apt install apache2-utils"
VERSION_OPTION = "-V"
MAX_USERS = 20_000
LACKS = {**CLOSED_LOOP_ONLY, "processes": "processes"}
METHODS = ("GET", "POST", "PUT")
MAX_REQUESTS = 1_000_000  # of a timed run (default 50,000); ab allocates 40 MB for them
CLOCK = 0.001  # s: ab's times are multiples of this
COARSE = 0.05  # maximum clock error as a share of the mean; else ab's times are not used

NUMBERS = {
    "elapsed": rf"^Time taken for tests: +{NUMBER} seconds$",
    "finished": rf"^Complete requests: +{COUNT}$",
    "ended": rf"^Total transferred: +{COUNT} bytes$",  # printed after every count
}
SHARE = re.compile(rf"^ +(\d+)% +{COUNT}(?=\n| \()", re.MULTILINE)
TOTAL = re.compile(rf"^Total: +\d+ +{COUNT} ", re.MULTILINE)
LOST = re.compile(rf"\(Connect: {COUNT}, Receive: {COUNT}, Length: \d+, Exceptions: {COUNT}\)")
NOT_2XX = re.compile(rf"^Non-2xx responses: +{COUNT}$", re.MULTILINE)


def command(load: Load) -> Command:
    """Accept responses of any length (-l), continue after a lost connection (-r), be quiet (-q).

    In a timed run `-n` follows `-t`, because `-t` also sets a maximum number of requests.
    """
    argv = ["ab", "-l", "-r", "-q", "-c", str(load.users), "-s", str(math.ceil(load.timeout))]
    if load.requests is not None:
        argv += ["-n", str(_requests(load))]
    else:
        argv += ["-t", str(math.ceil(load.seconds or 0)), "-n", str(MAX_REQUESTS)]
    argv += ["-k"] if load.keep_alive else []
    files = {}
    if load.message.method in ("POST", "PUT"):
        files["body"] = load.message.body or ""
        argv += ["-p" if load.message.method == "POST" else "-u", "{folder}/body"]
    kind = load.message.content_type
    if "body" in files:
        argv += ["-T", kind or content_type("")]
    elif kind is not None:
        argv += ["-H", f"Content-Type: {kind}"]
    argv += [word for line in load.message.lines for word in ("-H", line)]
    return Command((*argv, load.url), files=files, threads=1)


def parse(stdout: str, stderr: str, load: Load) -> LoadResult:
    """Parse ab's text.

    ab counts every response as complete, also one that is not 2xx, such as a redirect. It counts a
    lost connection up to twice and does not detect a truncated body. Its mean per request is
    derived from the rate, so the mean of its connection times is used.
    """
    found = {name: re.search(pattern, stdout, re.MULTILINE) for name, pattern in NUMBERS.items()}
    if None in found.values():
        last = (stderr.strip().splitlines() or ["see its output"])[-1]
        return LoadResult(problem=f"ab printed no result: {last}")
    elapsed, finished, _ = (float(match[1]) for match in found.values() if match)
    broken, odd = LOST.search(stdout), NOT_2XX.search(stdout)
    lost = min(int(finished), max(map(int, broken.groups()))) if broken else 0
    refused = int(odd[1]) if odd else 0
    completed = max(0, int(finished) - refused - lost)
    figures = count_figures(
        load.users,
        elapsed,
        completed,
        int(finished),
        {
            "4xx": None if refused else 0,  # ab does not distinguish them
            "5xx": None if refused else 0,
            "other": refused + lost,
            "unfinished": None,
        },
    )
    if completed and not refused and not lost:  # ab's times include failed responses
        figures = replace(figures, response=_response(stdout, load.users * elapsed / completed))
    return LoadResult(figures, notes=_notes(load, int(finished)))


def _response(stdout: str, mean_by_law: float) -> Response:
    """Return ab's times, or only the mean by Little's law if its clock is too coarse."""
    total = TOTAL.search(stdout)
    mean_s = int(total[1]) / 1000 if total else 0.0
    if COARSE * mean_s < CLOCK:
        return Response(mean_by_law, "Little's law")
    times = {share: int(ms) / 1000 for share, ms in SHARE.findall(stdout)}
    return Response(
        mean_s,
        "ab's clock of 1 ms",
        p50_s=times.get("50"),
        p90_s=times.get("90"),
        p95_s=times.get("95"),
        p99_s=times.get("99"),
        max_s=times.get("100"),
    )


def _requests(load: Load) -> int:
    """Return the number of requests, at least one per user: ab rejects fewer."""
    return max(load.requests or 0, load.users)


def _notes(load: Load, finished: int) -> tuple[Flag, ...]:
    """Note a rounded amount, and a timed run that ended at MAX_REQUESTS."""
    if load.requests is None:
        whole = math.ceil(load.seconds or 0)
        notes = []
        if whole != load.seconds:
            notes.append(Flag("rounded", f"{load.seconds:g} s became {whole}"))
        if finished >= MAX_REQUESTS:
            notes.append(Flag("ended", f"ab stops after {MAX_REQUESTS}"))
        return tuple(notes)
    requests = _requests(load)
    if requests == load.requests:
        return ()
    return (Flag("rounded", f"{load.requests} requests became {requests}"),)
