"""locust: users in Python, each a greenlet with a kept connection; quantiles have two digits."""

from __future__ import annotations

import json
import math
import sys
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from offload.errors import Flag
from offload.loads import (
    CLOSED_LOOP_ONLY,
    Command,
    Load,
    LoadResult,
    Response,
    count_figures,
    is_figure,
    request_target,
)
from offload.registry import places

TOOL = None
PACKAGE = "locust"
INSTALL = places.install_command([PACKAGE])
MAX_USERS = 20_000
ALWAYS_KEEP_ALIVE = True
LACKS = {"requests": "number of requests", **CLOSED_LOOP_ONLY}
COARSE = 0.01  # s: shorter times have a rounding error of more than 5 %


def command(load: Load) -> Command:
    """Start all users at once and print the figures as JSON.

    The faster of locust's two clients is used, because the one based on requests limits the rate.
    """
    users = str(load.users)
    argv = [sys.executable, "-m", "locust", "-f", "{folder}/user.py", "--headless"]
    argv += ["--json", "--only-summary", "--loglevel", "ERROR", "-u", users, "-r", users]
    argv += ["-t", f"{math.ceil(load.seconds or 0)}s"]
    argv += ["--processes", str(load.processes)] if load.processes > 1 else []
    headers = dict(load.message.headers)
    if load.message.content_type is not None and load.message.header("content-type") is None:
        headers["Content-Type"] = load.message.content_type
    parts = urlsplit(load.url)
    request = {
        "host": f"{parts.scheme}://{parts.netloc}",
        "target": request_target(parts),
        "method": load.message.method,
        "body": load.message.body,
        "headers": headers,
        "timeout": load.timeout,
    }
    user = Path(__file__).with_name("_locust_user.py").read_text()
    files = {"user.py": user, "request.json": json.dumps(request)}
    return Command(tuple(argv), files=files, threads=load.processes)


def parse(stdout: str, stderr: str, load: Load) -> LoadResult:
    """Parse locust's JSON. locust stops its users during a request and does not count it."""
    try:
        [report] = json.loads(stdout[stdout.index("[") :])
        elapsed = report["last_request_timestamp"] - report["start_time"]
        finished, failed, total = (
            report[key] for key in ("num_requests", "num_failures", "total_response_time")
        )
        quantiles = _quantiles(report["response_times"])
        if not all(map(is_figure, (elapsed, finished, failed, total, finished - failed))):
            raise ValueError("a figure is missing")
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        last = (stderr.strip().splitlines() or ["see its output"])[-1]
        return LoadResult(problem=f"locust printed no result: {last}")
    completed = finished - failed
    whole = math.ceil(load.seconds or 0)
    response = Response()
    if completed and not failed:  # locust's times include failed responses
        response = Response(total / completed / 1000, "locust's own", **quantiles)
    figures = count_figures(
        load.users,
        elapsed,
        completed,
        finished,
        {"other": failed, "unfinished": None},
        window_s=elapsed,
        response=response,
    )
    is_whole = whole == load.seconds
    notes = () if is_whole else (Flag("rounded", f"{load.seconds:g} s became {whole}"),)
    return LoadResult(figures, notes=notes)


def version() -> str:
    """Return locust's version."""
    return package_version(PACKAGE)


def _quantiles(times: dict[str, int]) -> dict[str, Any]:
    """Return nearest-rank percentiles in s of the rounded times; None for those below COARSE."""
    found: dict[str, Any] = {}
    ordered = sorted((int(float(ms)), count) for ms, count in times.items())
    total = sum(count for _, count in ordered)
    for name, share in {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "max": 1.0}.items():
        below = 0
        for ms, count in ordered:
            below += count
            if below >= math.ceil(share * total):
                found[f"{name}_s"] = ms / 1000 if ms / 1000 >= COARSE else None
                break
    return found
