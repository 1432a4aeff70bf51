"""builtin: the embedded load tool, asyncio over httptools, with exact times of every request."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import sys
from array import array
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from typing import Any

from loads import Command, Load, Measured

TOOL = None
INSTALL = None
MAX_USERS = 20_000
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}
KINDS = ("refused", "reset", "timeout", "4xx", "5xx", "other", "unfinished")


def command(load: Load) -> Command:
    """Run this module as a program, so that the load has a process of its own."""
    return Command((sys.executable, "-m", "loads.builtin", json.dumps(asdict(load))))


def parse(stdout: str, stderr: str, load: Load) -> Measured:
    """Read what `main` printed."""
    try:
        said = json.loads(stdout)
        return Measured(**{**said, "notes": tuple(said.get("notes", ()))})
    except (ValueError, TypeError, AttributeError):
        last = (stderr.strip().splitlines() or ["it said nothing"])[-1]
        return Measured(problem=f"builtin printed no result: {last}")


def version() -> str:
    """Name what this tool consists of."""
    python = ".".join(map(str, sys.version_info[:3]))
    loop = "asyncio"
    with contextlib.suppress(PackageNotFoundError):
        loop = f"uvloop {package_version('uvloop')}"
    return f"(httptools {package_version('httptools')}, {loop}, Python {python})"


def quantile(ordered: Sequence[float], share: float) -> float:
    """Give the smallest sample that `share` of all do not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summary(
    elapsed: float, times: array[float], failed: dict[str, int], problem: str | None
) -> Measured:
    """Sum a load up: `times` are those of completed requests, in seconds, in any order."""
    ordered = sorted(times)
    finished = len(times) + sum(n for kind, n in failed.items() if kind != "unfinished")
    quantiles: dict[str, Any] = {
        f"response_{name}_s": round(quantile(ordered, share), 6) if ordered else None
        for name, share in QUANTILES.items()
    }
    return Measured(
        elapsed_s=round(elapsed, 6),
        completed=len(times),
        failed={kind: failed.get(kind, 0) for kind in KINDS},
        availability=len(times) / finished if finished else None,
        rate=len(times) / elapsed if elapsed else None,
        rate_how="count / elapsed",
        response_mean_s=round(math.fsum(times) / len(times), 6) if ordered else None,
        response_how="per request" if ordered else None,
        problem=problem,
        **quantiles,
    )


def main(words: list[str]) -> None:
    """Run the load that stands in the first word as JSON, and print what was measured as JSON."""
    from loads._users import Users

    loop = None
    with contextlib.suppress(ImportError):
        import uvloop

        loop = uvloop.new_event_loop
    users = Users(Load(**json.loads(words[0])))
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(users.run())
    measured = asdict(summary(users.elapsed, users.times, users.failed, users.problem))
    print(
        json.dumps({key: value for key, value in measured.items() if value is not None}, indent=1)
    )


if __name__ == "__main__":
    main(sys.argv[1:])
