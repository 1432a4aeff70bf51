"""The supervisor: the process that serves the upstream, from its lock to the last file removed."""

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
from offload.upstream.backend import Serving, answers
from offload.upstream.certificates import Certificate
from offload.upstream.facts_file import Facts, Upstream
from offload.upstream.hold_port import HoldPort
from offload.upstream.lock import locked

PREDECESSOR_DEADLINE = 4.0  # seconds for one that is just ending


@dataclass(frozen=True)
class Wanted:
    """What was asked for: ports are taken if free; `while_held` ends with the last holder."""

    latency_s: float
    ports: tuple[int, int]
    while_held: bool


async def supervise(wanted: Wanted, ready: Callable[[Upstream], None]) -> None:
    """Serve until a signal or the last holder's end; call `ready` once everything has answered."""
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    folder = facts_file.folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    async with contextlib.AsyncExitStack() as stack:
        life = stack.enter_context(locked(folder / "life", PREDECESSOR_DEADLINE))
        facts_file.remove(folder)  # those of a predecessor that was killed
        certificate = certificates.certificate(folder)
        serving = await _serve(stack, wanted, certificate, life)
        upstream = _upstream(serving, wanted, certificate)
        holds = HoldPort(lambda: _end(folder, holds, ending) if wanted.while_held else None)
        facts_file.write(folder, Facts(upstream, await holds.open(), holds.token))
        stack.callback(_end, folder, holds, ending)
        ready(upstream)
        if wanted.while_held:
            holds.expect()
        await _until(ending, serving)


async def _serve(
    stack: contextlib.AsyncExitStack, wanted: Wanted, certificate: Certificate, life: int
) -> Serving:
    """Start nginx where it is installed and no latency is wanted, else the embedded server."""
    app = application.application(wanted.latency_s)
    program = None if wanted.latency_s else nginx.find()  # nginx cannot wait
    if program is not None:
        by_nginx = nginx.serving(program, app, wanted.ports, certificate, life)
        try:
            return await stack.enter_async_context(by_nginx)
        except StartError as error:
            print(f"{error}; the embedded server serves instead", file=sys.stderr, flush=True)
    serving = stack.enter_context(embedded.serving(app, wanted.ports, certificate))
    if not await answers(serving, certificate.ca):
        raise StartError(f"the embedded server does not answer at {serving.urls[0]}")
    return serving


def _upstream(serving: Serving, wanted: Wanted, certificate: Certificate) -> Upstream:
    http, https = serving.urls
    ca = str(certificate.ca)
    return Upstream(http, https, ca, serving.kind, wanted.latency_s, os.getpid())


def _end(folder: Path, holds: HoldPort, ending: asyncio.Event) -> None:
    """Begin to end, in one step, so that nobody can come to hold what is about to go."""
    facts_file.remove(folder)
    holds.close()
    ending.set()


async def _until(ending: asyncio.Event, serving: Serving) -> None:
    """Wait for the end that was asked for; raise StartError if the server ended by itself."""
    asked: asyncio.Future[Any] = asyncio.ensure_future(ending.wait())
    by_itself = [] if serving.ended is None else [serving.ended]
    await asyncio.wait([asked, *by_itself], return_when=asyncio.FIRST_COMPLETED)
    if not asked.done():
        asked.cancel()
        raise StartError(f"{serving.kind} ended by itself: see its log in {facts_file.folder()}")
