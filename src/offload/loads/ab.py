"""ab: ApacheBench, one thread over HTTP/1.0, with times of every request in whole milliseconds."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from offload.flags import Flag
from offload.loads import Command, Load, Measured
from offload.loads._figures import COUNT, NUMBER
from offload.loads._validation import PLAIN
from offload.loads.engine.body import content_type
from offload.loads.engine.rates import quantum_of_count

TOOL = "ab"
INSTALL = "sudo apt install apache2-utils"
ASKED_VERSION = "-V"
MAX_USERS = 20_000
LACKS = {**PLAIN, "processes": "processes"}
METHODS = ("GET", "POST", "PUT")
MOST = 1_000_000  # requests of a timed run, for which it sets 40 MB aside; by itself it ends at 50k
CLOCK = 0.001  # s: its times are multiples of this
COARSE = 0.05  # of the value: beyond it times are not known from this clock

NUMBERS = {
    "elapsed": rf"^Time taken for tests: +{NUMBER} seconds$",
    "finished": rf"^Complete requests: +{COUNT}$",
    "ended": rf"^Total transferred: +{COUNT} bytes$",  # behind every count
}
SHARE = re.compile(rf"^ +(\d+)% +{COUNT}(?=\n| \()", re.MULTILINE)
TOTAL = re.compile(rf"^Total: +\d+ +{COUNT} ", re.MULTILINE)
LOST = re.compile(rf"\(Connect: {COUNT}, Receive: {COUNT}, Length: \d+, Exceptions: {COUNT}\)")
NOT_2XX = re.compile(rf"^Non-2xx responses: +{COUNT}$", re.MULTILINE)


def command(load: Load) -> Command:
    """Take answers of any length (-l), go on after a lost connection (-r) and say no progress (-q).

    A timed run is `-t` with `-n` behind it, since `-t` sets a number of requests of its own.
    """
    words = ["ab", "-l", "-r", "-q", "-c", str(load.users), "-s", str(math.ceil(load.timeout))]
    if load.requests is not None:
        words += ["-n", str(_requests(load))]
    else:
        words += ["-t", str(math.ceil(load.seconds or 0)), "-n", str(MOST)]
    words += ["-k"] if load.keep_alive else []
    files = {}
    if load.method in ("POST", "PUT"):
        files["body"] = load.body or ""
        words += ["-p" if load.method == "POST" else "-u", "{folder}/body"]
        words += ["-T", content_type(load.body or "")]
    return Command((*words, load.url), files=files)


def parse(stdout: str, stderr: str, load: Load) -> Measured:
    """Read ab's text. Answers that are not 2xx are no failures to it; redirects are among them.

    It counts a lost connection up to twice, and does not notice a body that ends too early. Its
    mean per request is derived from the rate, so the mean of its connection times is taken.
    """
    found = {name: re.search(pattern, stdout, re.MULTILINE) for name, pattern in NUMBERS.items()}
    if None in found.values():
        last = (stderr.strip().splitlines() or ["its output says why"])[-1]
        return Measured(problem=f"ab printed no result: {last}")
    elapsed, finished, _ = (float(match[1]) for match in found.values() if match)
    broken, odd = LOST.search(stdout), NOT_2XX.search(stdout)
    lost = min(int(finished), max(map(int, broken.groups()))) if broken else 0
    refused = int(odd[1]) if odd else 0
    completed = max(0, int(finished) - refused - lost)
    measured = Measured(
        elapsed_s=elapsed,
        completed=completed,
        failed={
            "4xx": None if refused else 0,  # it does not tell them apart
            "5xx": None if refused else 0,
            "other": refused + lost,
            "unfinished": None,
        },
        availability=completed / finished if finished else None,
        rate=completed / elapsed if elapsed else None,
        rate_how="count / elapsed",
        rate_quantum=quantum_of_count(load.users, completed),
        notes=_notes(load, int(finished)),
    )
    if refused or lost or not completed:  # its times are of all answers
        return measured
    total = TOTAL.search(stdout)
    mean_s = int(total[1]) / 1000 if total else 0.0
    times = {share: int(ms) / 1000 for share, ms in SHARE.findall(stdout)}
    if COARSE * mean_s < CLOCK:
        by_law = load.users * elapsed / completed
        return replace(measured, response_mean_s=by_law, response_how="Little's law")
    return replace(
        measured,
        response_mean_s=mean_s,
        response_how="ab's clock of 1 ms",
        response_p50_s=times.get("50"),
        response_p90_s=times.get("90"),
        response_p95_s=times.get("95"),
        response_p99_s=times.get("99"),
        response_max_s=times.get("100"),
    )


def _requests(load: Load) -> int:
    """Ask no fewer than there are users, which ab refuses."""
    return max(load.requests or 0, load.users)


def _notes(load: Load, finished: int) -> tuple[Flag, ...]:
    """Say where the amount was changed, and when a timed run came to its end by count."""
    if load.requests is None:
        whole = math.ceil(load.seconds or 0)
        rounded = (
            ()
            if whole == load.seconds
            else (Flag("rounded", f"{load.seconds:g} s became {whole}"),)
        )
        return (
            *rounded,
            *(Flag("ended", f"ab stops after {MOST}") for _ in range(finished >= MOST)),
        )
    asked = _requests(load)
    return (
        ()
        if asked == load.requests
        else (Flag("rounded", f"{load.requests} requests became {asked}"),)
    )
