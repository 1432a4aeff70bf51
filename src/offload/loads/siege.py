"""siege: the published benchmark's own load tool, driven with care."""

from __future__ import annotations

import json
import math
import re

from offload.flags import Flag
from offload.loads import Command, Load, Measured
from offload.loads._figures import is_figure
from offload.loads._siege_config import config
from offload.loads._validation import PLAIN
from offload.loads.engine.body import content_type
from offload.loads.engine.rates import quantum_of_count

TOOL = "siege"
INSTALL = "sudo apt install siege"
MAX_USERS = 1000
LACKS = {**PLAIN, "think": "even think time", "processes": "processes"}
METHODS = ("GET", "POST")
MAX_FAILURES = 256
CLOCK = 0.01  # s: siege's own times are multiples of this
COARSE = 0.05  # of the value: beyond it the mean is taken from Little's law

KEYS = (
    "transactions",
    "failed_transactions",
    "successful_transactions",
    "elapsed_time",
    "response_time",
    "longest_transaction",
)
KINDS = {
    "refused": re.compile("Connection refused"),
    "reset": re.compile("Connection reset"),
    "timeout": re.compile("timed out|timeout"),
}


def command(load: Load) -> Command:
    """Give siege a home of its own, since it writes there, and a complete configuration.

    Its `-r` counts repetitions of each user, so `requests` are rounded up to a multiple of users.
    """
    if load.requests is not None:
        amount = ("-r", str(math.ceil(load.requests / load.users)))
    else:
        amount = ("-t", f"{math.ceil(load.seconds or 0)}S")
    words: tuple[str, ...] = (
        "siege",
        "-R",
        "{folder}/siege.conf",
        "-b",
        "-c",
        str(load.users),
        *amount,
    )
    files = {"siege.conf": config(load, MAX_USERS, MAX_FAILURES), ".siege/cookies.txt": ""}
    url = load.url
    if load.method == "POST":
        words = (*words, "--content-type", content_type(load.body or ""))
        files["body"] = load.body or ""
        url = f"{load.url} POST <{{folder}}/body"
    return Command((*words, url), environment={"HOME": "{folder}"}, files=files)


def parse(stdout: str, stderr: str, load: Load) -> Measured:
    """Read siege's JSON, which stands behind whatever else it says first.

    siege counts a 404 as available and a 5xx or a lost connection as failed; it drops requests
    that were not answered when time was up, and names a failure's kind on stderr at most.
    """
    try:
        said = json.loads(stdout[stdout.index("{") : stdout.rindex("}") + 1])
    except (ValueError, RecursionError):
        return Measured(problem="siege printed no result: its output says why")
    if odd := [key for key in KEYS if not is_figure(said.get(key))]:
        return Measured(problem=f"siege's result has no number for {', '.join(odd)}")
    transactions, failures = said["transactions"], said["failed_transactions"]
    completed = min(said["successful_transactions"], transactions)
    elapsed = said["elapsed_time"]
    failed = _failures(stderr, failures, transactions - completed)
    finished = transactions + failures
    mean, how = _mean(said["response_time"], completed, failures, elapsed, load)
    gave_up = failures >= MAX_FAILURES
    return Measured(
        elapsed_s=elapsed,
        completed=completed,
        failed=failed,
        availability=completed / finished if finished else None,
        rate=completed / elapsed if elapsed else None,
        rate_how="count / elapsed",
        rate_quantum=quantum_of_count(load.users, completed),
        response_mean_s=mean,
        response_how=how,
        response_max_s=said["longest_transaction"] if completed else None,
        problem=f"siege gave up after {failures} failures ({_worst(failed)})" if gave_up else None,
        notes=_notes(load),
    )


def _notes(load: Load) -> tuple[Flag, ...]:
    """Say when the amount was rounded: `-t` takes whole seconds, `-r` repeats for each user."""
    if load.requests is None:
        whole = math.ceil(load.seconds or 0)
        is_whole = whole == (load.seconds or 0)
        return (
            ()
            if is_whole
            else (Flag("rounded", f"time={load.seconds:g} became {whole} s for siege"),)
        )
    asked = math.ceil(load.requests / load.users) * load.users
    if asked == load.requests:
        return ()
    return (
        Flag("rounded", f"requests={load.requests} became {asked}, as many for each user of siege"),
    )


def _failures(stderr: str, failures: int, not_found: int) -> dict[str, int | None]:
    # A request that timed out says so twice; the first of the two lines is not counted.
    lines = [line for line in stderr.splitlines() if "select and discovered" not in line]
    known: dict[str, int | None] = {
        kind: sum(bool(pattern.search(line)) for line in lines) for kind, pattern in KINDS.items()
    }
    other = max(0, failures - sum(count or 0 for count in known.values()))
    return {
        **known,
        "4xx": not_found,
        "5xx": None if other else 0,  # siege does not tell a 5xx from a connection closed early
        "other": other,
        "unfinished": None,
    }


def _mean(
    said: float, completed: int, failures: int, elapsed: float, load: Load
) -> tuple[float | None, str | None]:
    """Take siege's mean, or users x elapsed / completed where its clock is too coarse."""
    if not completed or not elapsed:
        return None, None
    if COARSE * said >= CLOCK:
        return said, "siege's clock of 10 ms"
    if failures:  # users that waited for them did not wait for an answer
        return None, None
    return load.users * elapsed / completed, "Little's law"


def _worst(failed: dict[str, int | None]) -> str:
    kind, count = max(failed.items(), key=lambda item: item[1] or 0)
    words = {"other": "a 5xx, or closed early"}
    return f"{count} {words.get(kind, kind)}"
