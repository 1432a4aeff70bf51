"""locust: users in Python, each a greenlet that keeps its connection; times in whole ms."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any

from offload.flags import Flag
from offload.loads import Command, Load, Measured
from offload.loads._figures import is_figure
from offload.loads._validation import PLAIN
from offload.loads.engine.body import content_type
from offload.loads.engine.rates import quantum_of_count

TOOL = None
PACKAGE = "locust"
INSTALL = "make suites"
MAX_USERS = 20_000
KEEPS = True
LACKS = {"requests": "number of requests", **PLAIN}
COARSE = 0.01  # s: below it its whole milliseconds, above it its two digits are 5 % or better


def command(load: Load) -> Command:
    """Start all users at once, and have its figures as JSON.

    Of its two clients the faster is taken: the other, of requests, would bind the rate itself.
    """
    users = str(load.users)
    words = [sys.executable, "-m", "locust", "-f", "{folder}/user.py", "--headless"]
    words += ["--json", "--only-summary", "--loglevel", "ERROR", "-u", users, "-r", users]
    words += ["-t", f"{math.ceil(load.seconds or 0)}s"]
    words += ["--processes", str(load.processes)] if load.processes > 1 else []
    headers = {} if load.body is None else {"Content-Type": content_type(load.body)}
    asked = {
        "url": load.url,
        "method": load.method,
        "body": load.body,
        "headers": headers,
        "timeout": load.timeout,
    }
    user = Path(__file__).with_name("_locust_user.py").read_text()
    return Command(tuple(words), {"LOCUST_ASKED": json.dumps(asked)}, {"user.py": user})


def parse(stdout: str, stderr: str, load: Load) -> Measured:
    """Read locust's JSON. It stops its users in the middle of a request, and does not count it."""
    try:
        [said] = json.loads(stdout[stdout.index("[") :])
        elapsed = said["last_request_timestamp"] - said["start_time"]
        asked, failed, total = (
            said[key] for key in ("num_requests", "num_failures", "total_response_time")
        )
        quantiles = _quantiles(said["response_times"])
        if not all(map(is_figure, (elapsed, asked, failed, total, asked - failed))):
            raise ValueError("a figure is missing")
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        last = (stderr.strip().splitlines() or ["its output says why"])[-1]
        return Measured(problem=f"locust printed no result: {last}")
    completed = asked - failed
    whole = math.ceil(load.seconds or 0)
    measured = Measured(
        elapsed_s=elapsed,
        completed=completed,
        failed={"other": failed, "unfinished": None},
        availability=completed / asked if asked else None,
        rate=completed / elapsed if elapsed else None,
        rate_how="count / elapsed",
        rate_quantum=quantum_of_count(load.users, completed),
        window_s=elapsed,
        notes=()
        if whole == load.seconds
        else (Flag("rounded", f"{load.seconds:g} s became {whole}"),),
    )
    if failed or not completed:  # its times are of all answers
        return measured
    return replace(
        measured,
        response_mean_s=total / completed / 1000,
        response_how="locust's own",
        **quantiles,
    )


def version() -> str:
    """Name its release."""
    return package_version(PACKAGE)


def _quantiles(times: dict[str, int]) -> dict[str, Any]:
    """Give percentiles in s by nearest rank, of its rounded times; None where those are coarse."""
    found: dict[str, Any] = {}
    ordered = sorted((int(float(ms)), count) for ms, count in times.items())
    total = sum(count for _, count in ordered)
    for name, share in {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "max": 1.0}.items():
        below = 0
        for ms, count in ordered:
            below += count
            if below >= math.ceil(share * total):
                found[f"response_{name}_s"] = ms / 1000 if ms / 1000 >= COARSE else None
                break
    return found
