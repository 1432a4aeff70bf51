"""nginx: serves the pages when it is installed, as a child that never outlives the supervisor."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import tornado.web

from offload import prctl
from offload.errors import StartError
from offload.upstream.application import WWW
from offload.upstream.backend import Serving, answers
from offload.upstream.certificates import Certificate
from offload.upstream.embedded import BACKLOG, behind, free_ports

WORKERS = 2  # processes; a guess: they serve far more than one server under test asks for
STOP_DEADLINE = 3.0  # seconds
PR_SET_PDEATHSIG = 1
CONFIGURATION = """\
daemon off;
{user}worker_processes {workers};
pid nginx.pid;
error_log nginx.log warn;
events {{ worker_connections 2048; }}
http {{
    access_log off;
    types {{ text/html html; text/xml xml; }}
    keepalive_timeout 75s;
    keepalive_requests 1000000;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    upstream behind {{ server 127.0.0.1:{behind}; keepalive 128; }}
    server {{
        listen 127.0.0.1:{http} backlog={backlog};
        listen 127.0.0.1:{https} ssl backlog={backlog};
        ssl_certificate {chain};
        ssl_certificate_key {key};
        root www;
        location = /flaky {{ proxy_pass http://127.0.0.1:{behind}; }}
        location = /wait {{
            proxy_pass http://behind;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }}
        location = /status {{ proxy_pass http://127.0.0.1:{behind}; }}
    }}
}}
"""


def find() -> str | None:
    """Find nginx on the PATH or where systems put it; None if it is not installed."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


@contextlib.asynccontextmanager
async def serving(
    program: str,
    app: tornado.web.Application,
    wanted: Sequence[int],
    certificate: Certificate,
    lock: int,
) -> AsyncIterator[Serving]:
    """Serve by nginx, and /flaky and /status by an application behind it; raise StartError.

    Everything it writes stands beside the certificate; it keeps `lock` open until it has ended.
    """
    folder = certificate.chain.parent
    with behind(app) as port:
        http, https = free_ports(wanted)
        _configure(folder, certificate, http=http, https=https, behind=port)
        process = await _start(program, folder, lock)
        ended = asyncio.ensure_future(process.wait())
        try:
            found = Serving("nginx", http, https, ended)
            if not await answers(found, certificate.ca):
                raise StartError(f"nginx did not start: see {folder / 'nginx.log'}")
            yield found
        finally:
            await _stop(process, ended)


def _configure(
    folder: Path, certificate: Certificate, *, http: int, https: int, behind: int
) -> None:
    """Write nginx.conf; its paths are relative to the folder, so that none has to be quoted."""
    www = folder / "www"
    www.unlink(missing_ok=True)
    www.symlink_to(WWW)
    user = f"user {pwd.getpwuid(0).pw_name};\n" if os.geteuid() == 0 else ""
    text = CONFIGURATION.format(
        user=user,
        workers=WORKERS,
        backlog=BACKLOG,
        chain=certificate.chain.name,
        key=certificate.key.name,
        http=http,
        https=https,
        behind=behind,
    )
    (folder / "nginx.conf").write_text(text)


async def _start(program: str, folder: Path, lock: int) -> asyncio.subprocess.Process:
    command = [program, "-p", f"{folder}/", "-c", "nginx.conf", *_early_log(program)]
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C is for the supervisor, which then ends this
            pass_fds=(lock,),
            preexec_fn=prctl.at_parents_end(os.getpid(), signal.SIGTERM),
        )
    except OSError as error:
        raise StartError(f"nginx did not start: {error}") from None


async def _stop(process: asyncio.subprocess.Process, ended: asyncio.Future[int]) -> None:
    """End nginx at once, by force after STOP_DEADLINE, and what is left of its workers."""
    if not ended.done():
        process.terminate()
    await asyncio.wait({ended}, timeout=STOP_DEADLINE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await ended


def _early_log(program: str) -> list[str]:
    """Keep what it logs before it reads its configuration in the folder (nginx 1.19.5 on)."""
    try:
        shown = subprocess.run([program, "-v"], capture_output=True, timeout=5, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = re.search(rb"/(\d+)\.(\d+)\.(\d+)", shown)
    version = tuple(int(part) for part in found.groups()) if found else (0,)
    return ["-e", "nginx.log"] if version >= (1, 19, 5) else []
