"""The command `python -m offload.upstream`: serve the upstream until a signal."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from offload.errors import StartError, UserError
from offload.upstream import application, certificates, client, embedded, nginx
from offload.upstream.certificates import Certificate
from offload.upstream.client import Upstream
from offload.upstream.embedded import Backend

DEFAULTS = {
    "latency_s": 0.0,
    "port": client.HTTP_PORT,
    "https_port": client.HTTPS_PORT,
    "held": False,
}


def main(arguments: Sequence[str]) -> int:
    """Serve with the options of `run_upstream` or `hold()`, in JSON; return the exit code.

    A UserError is a line on stderr. `latency_s` is the delay of each page, `port` and `https_port`
    are replaced by free ones if they are busy, and with `held` it ends with the process that
    started it.
    """
    options = {**DEFAULTS, **json.loads(arguments[0] if arguments else "{}")}
    is_held = options["held"]
    try:
        if is_held:
            _detach()
        elif found := client.running():
            hint = f"use it, or stop it first (kill {found.pid})"
            raise StartError(f"an upstream is already running at {found.http}", hint)
        ports = (0, 0) if is_held else (options["port"], options["https_port"])
        with client.storage_errors(client.folder()):
            asyncio.run(serve(options["latency_s"], ports, is_held, _report if is_held else _print))
    except UserError as error:
        print(error, file=sys.stderr)
        if is_held:
            with contextlib.suppress(BrokenPipeError):
                print(error, flush=True)  # to the holder
        return error.exit_code
    return 0


def _detach() -> None:
    """Continue as a child whose parent exits at once, so that the holder has no child."""
    if os.fork():
        os._exit(0)


def _report(upstream: Upstream) -> None:
    with contextlib.suppress(BrokenPipeError):  # the holder has given up
        print(json.dumps(client.status_of(upstream)), flush=True)


def _print(upstream: Upstream) -> None:
    print(f"{upstream.kind} serves at {upstream.http} and {upstream.https}", flush=True)
    print(f"CA certificate: {upstream.ca}; Ctrl-C stops the upstream", file=sys.stderr)
    if not upstream.https.endswith(f":{client.HTTPS_PORT}"):
        print(f"Other commands find it with UPSTREAM={upstream.https}", file=sys.stderr)


async def serve(
    latency_s: float, ports: tuple[int, int], is_held: bool, ready: Callable[[Upstream], None]
) -> None:
    """Serve until a signal, or until the holder's end; call `ready` once both ports respond.

    `ports` are preferred ones.
    """
    ending, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, ending.set)
    if is_held:
        _end_with_holder(loop, ending)
    folder = client.folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    certificate, status = certificates.certificate(folder), dict[str, Any]()
    async with contextlib.AsyncExitStack() as stack:
        serving = await _serve(stack, latency_s, ports, certificate, status)
        ca = str(certificate.ca)
        upstream = Upstream(*serving.urls, ca, serving.kind, latency_s, os.getpid())
        status.update(client.status_of(upstream))
        ready(upstream)
        await _until(ending, serving)


def _end_with_holder(loop: asyncio.AbstractEventLoop, ending: asyncio.Event) -> None:
    """Set `ending` when the standard input ends: the holder has closed it, or has died."""
    descriptor = sys.stdin.fileno()

    def end() -> None:
        loop.remove_reader(descriptor)  # it remains readable
        ending.set()

    loop.add_reader(descriptor, end)


async def _serve(
    stack: contextlib.AsyncExitStack,
    latency_s: float,
    ports: tuple[int, int],
    certificate: Certificate,
    status: dict[str, Any],
) -> Backend:
    """Start nginx if it is installed and no latency is set, else the embedded server."""
    app = application.application(latency_s, status)
    program = None if latency_s else nginx.find()  # nginx cannot delay pages
    if program is not None:
        try:
            return await stack.enter_async_context(nginx.serving(program, app, ports, certificate))
        except StartError as error:
            print(f"{error}; using the embedded server instead", file=sys.stderr, flush=True)
    serving = stack.enter_context(embedded.serving(app, ports, certificate))
    if not await embedded.is_ready(serving, certificate.ca):
        raise StartError(f"the embedded server does not respond at {serving.urls[0]}")
    return serving


async def _until(ending: asyncio.Event, serving: Backend) -> None:
    """Wait for the requested end; raise StartError if the server ended unexpectedly."""
    requested: asyncio.Future[Any] = asyncio.ensure_future(ending.wait())
    unexpected = [] if serving.ended is None else [serving.ended]
    await asyncio.wait([requested, *unexpected], return_when=asyncio.FIRST_COMPLETED)
    if not requested.done():
        requested.cancel()
        raise StartError(f"{serving.kind} ended unexpectedly: see its log in {client.folder()}")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
