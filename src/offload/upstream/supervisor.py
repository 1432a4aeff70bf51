"""The supervisor: the process that serves the upstream and cleans up after it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offload.errors import StartError
from offload.upstream import application, certificates, embedded, facts_file, nginx
from offload.upstream.backend import Backend, is_ready
from offload.upstream.certificates import Certificate
from offload.upstream.facts_file import Facts, Upstream
from offload.upstream.hold_port import HoldPort
from offload.upstream.lock import locked

PREDECESSOR_DEADLINE = 4.0  # seconds for a previous upstream to end


@dataclass(frozen=True)
class Options:
    """Options: `ports` are preferred ones; with `while_held` it ends with its last holder."""

    latency_s: float
    ports: tuple[int, int]
    while_held: bool


async def supervise(options: Options, ready: Callable[[Upstream], None]) -> None:
    """Serve until a signal or the last holder's end; call `ready` once both ports respond."""
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    folder = facts_file.folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    async with contextlib.AsyncExitStack() as stack:
        life = stack.enter_context(locked(folder / "life", PREDECESSOR_DEADLINE))
        facts_file.remove(folder)  # left by a predecessor that was killed
        certificate = certificates.certificate(folder)
        serving = await _serve(stack, options, certificate, life)
        upstream = _upstream(serving, options, certificate)
        holds = HoldPort(lambda: _end(folder, holds, ending) if options.while_held else None)
        facts_file.write(folder, Facts(upstream, await holds.open(), holds.token))
        stack.callback(_end, folder, holds, ending)
        ready(upstream)
        if options.while_held:
            holds.expect()
        await _until(ending, serving)


async def _serve(
    stack: contextlib.AsyncExitStack, options: Options, certificate: Certificate, life: int
) -> Backend:
    """Start nginx if it is installed and no latency is set, else the embedded server."""
    app = application.application(options.latency_s)
    program = None if options.latency_s else nginx.find()  # nginx cannot delay pages
    if program is not None:
        nginx_server = nginx.serving(program, app, options.ports, certificate, life)
        try:
            return await stack.enter_async_context(nginx_server)
        except StartError as error:
            print(f"{error}; using the embedded server instead", file=sys.stderr, flush=True)
    serving = stack.enter_context(embedded.serving(app, options.ports, certificate))
    if not await is_ready(serving, certificate.ca):
        raise StartError(f"the embedded server does not respond at {serving.urls[0]}")
    return serving


def _upstream(serving: Backend, options: Options, certificate: Certificate) -> Upstream:
    http, https = serving.urls
    ca = str(certificate.ca)
    return Upstream(http, https, ca, serving.kind, options.latency_s, os.getpid())


def _end(folder: Path, holds: HoldPort, ending: asyncio.Event) -> None:
    """Start the shutdown in one step, so that no new holder can connect."""
    facts_file.remove(folder)
    holds.close()
    ending.set()


async def _until(ending: asyncio.Event, serving: Backend) -> None:
    """Wait for the requested end; raise StartError if the server ended unexpectedly."""
    requested: asyncio.Future[Any] = asyncio.ensure_future(ending.wait())
    unexpected = [] if serving.ended is None else [serving.ended]
    await asyncio.wait([requested, *unexpected], return_when=asyncio.FIRST_COMPLETED)
    if not requested.done():
        requested.cancel()
        raise StartError(f"{serving.kind} ended unexpectedly: see its log in {facts_file.folder()}")
