"""The command `python -m offload.upstream`: serve the upstream until a signal."""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from offload.errors import StartError, UsageError, UserError
from offload.upstream import facts_file
from offload.upstream.client import running, storage_errors
from offload.upstream.facts_file import Upstream
from offload.upstream.supervisor import Options, supervise

LONGEST_LATENCY = 60.0  # seconds


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, "see python -m offload.upstream --help")


def main(arguments: Sequence[str]) -> int:
    """Serve with the options in `arguments`; return the exit code. Errors are a line on stderr."""
    report: int | None = None
    try:
        options = _options(arguments)
        report = options.detached
        if report is not None:
            _detach()
        elif found := running():
            hint = f"use it, or stop it first (kill {found.pid})"
            raise StartError(f"an upstream is already running at {found.http}", hint)
        settings = Options(options.latency, (options.port, options.https_port), options.while_held)
        with storage_errors(facts_file.folder()):
            asyncio.run(supervise(settings, lambda upstream: _ready(upstream, report)))
    except UserError as error:
        print(error, file=sys.stderr)
        if report is not None:
            _report(report, str(error))
        return error.exit_code
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="python -m offload.upstream", description="Serve the upstream until a signal."
    )
    parser.add_argument(
        "--latency", type=_latency, default=0.0, help="delay of every page in seconds (embedded)"
    )
    parser.add_argument("--port", type=_port, default=8081, help="HTTP port; if busy, a free one")
    parser.add_argument(
        "--https-port", type=_port, default=8444, help="HTTPS port; if busy, a free one"
    )
    parser.add_argument("--while-held", action="store_true", help="end with the last holder")
    parser.add_argument("--detached", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a port: choose from 1 to 65535")
    return int(text)


def _latency(text: str) -> float:
    try:
        latency = float(text)
    except ValueError:
        latency = math.nan
    if not 0 <= latency <= LONGEST_LATENCY:
        hint = f"choose from 0 to {LONGEST_LATENCY:g} seconds"
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a latency: {hint}")
    return latency


def _detach() -> None:
    """Continue as a child whose parent exits at once, so that the starter keeps no child."""
    if os.fork():
        os._exit(0)


def _ready(upstream: Upstream, report: int | None) -> None:
    if report is not None:
        _report(report, "ready")
        return
    print(f"{upstream.kind} serves at {upstream.http} and {upstream.https}", flush=True)
    print(f"CA certificate: {upstream.ca}; Ctrl-C stops the upstream", file=sys.stderr)


def _report(report: int, line: str) -> None:
    with os.fdopen(report, "wb") as pipe:
        pipe.write(f"{line}\n".encode())


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
