"""nginx: serves the pages if it is installed; it never outlives the upstream's own process."""

from __future__ import annotations

import asyncio
import contextlib
import grp
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import tornado.web

from offload import prctl
from offload.errors import StartError
from offload.upstream.application import WWW
from offload.upstream.certificates import Certificate
from offload.upstream.embedded import BACKLOG, Backend, behind, free_ports, is_ready

USER = "nobody"  # of the workers, if this process is root's
LOG = "nginx.log"
WORKERS = 2  # processes; a guess: they serve far more requests than one server under test sends
STOP_DEADLINE = 3.0  # seconds
CONFIGURATION = """\
daemon off;
{user}worker_processes {workers};
pid nginx.pid;
error_log {log} warn;
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
        location ~ ^/(wait|limited)$ {{
            proxy_pass http://behind;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }}
        location = /status {{ proxy_pass http://127.0.0.1:{behind}; }}
    }}
}}
"""


def find() -> str | None:
    """Find nginx on the PATH or in the usual folders; None if it is not installed."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


@contextlib.asynccontextmanager
async def serving(
    program: str,
    app: tornado.web.Application,
    ports: Sequence[int],
    certificate: Certificate,
) -> AsyncIterator[Backend]:
    """Serve with nginx, which proxies all but the pages to `app`; raise StartError."""
    with behind(app) as port, _folder(certificate) as folder:
        http, https = free_ports(ports)
        _configure(folder, certificate, http=http, https=https, behind=port)
        process = await _start(program, folder)
        ended = asyncio.ensure_future(process.wait())
        try:
            found = Backend("nginx", http, https, ended)
            if not await is_ready(found, certificate.ca):
                log = certificate.chain.with_name(LOG)
                raise StartError("nginx did not start", f"see {log}")
            yield found
        finally:
            await _stop(process, ended)


@contextlib.contextmanager
def _folder(certificate: Certificate) -> Iterator[Path]:
    """Yield a temporary folder with the pages and the certificate, for nginx's own files, too.

    As root the workers run as another user, who can read the pages there. The key stays readable by
    its owner only.
    """
    with tempfile.TemporaryDirectory(prefix="upstream-nginx-", dir=public_folder()) as name:
        folder = Path(name)
        shutil.copytree(WWW, folder / "www")
        for path in (folder, folder / "www", *(folder / "www").rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        for path in (certificate.chain, certificate.key):
            shutil.copy(path, folder)
        try:
            yield folder
        finally:
            with contextlib.suppress(OSError):  # it did not start
                shutil.copy(folder / LOG, certificate.chain.parent)


def public_folder() -> Path:
    """Return a folder for temporary files that every user can reach; raise StartError."""
    for path in map(Path, (tempfile.gettempdir(), "/tmp", "/var/tmp")):  # noqa: S108
        folders = (path, *path.resolve().parents)
        if path.is_dir() and all(each.stat().st_mode & 0o001 for each in folders):
            return path
    raise StartError("nginx did not start", "no folder for temporary files is open to all users")


def user_line() -> str:
    """Return the line that names the user of the workers; raise StartError."""
    if os.geteuid() != 0:
        return ""
    try:
        user = pwd.getpwnam(USER)
        return f"user {USER} {grp.getgrgid(user.pw_gid).gr_name};\n"
    except KeyError:
        fix = f"add the user {USER}: as root its workers need one"
        raise StartError("nginx did not start", fix) from None


def _configure(
    folder: Path, certificate: Certificate, *, http: int, https: int, behind: int
) -> None:
    """Write nginx.conf; its paths are relative to the folder, so they need no quoting."""
    text = CONFIGURATION.format(
        user=user_line(),
        log=LOG,
        workers=WORKERS,
        backlog=BACKLOG,
        chain=certificate.chain.name,
        key=certificate.key.name,
        http=http,
        https=https,
        behind=behind,
    )
    (folder / "nginx.conf").write_text(text)


async def _start(program: str, folder: Path) -> asyncio.subprocess.Process:
    command = [program, "-p", f"{folder}/", "-c", "nginx.conf", *early_log(program)]
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C reaches only this process, which then stops nginx
            preexec_fn=prctl.parent_death_hook(os.getpid(), signal.SIGTERM),
        )
    except OSError as error:
        raise StartError(f"nginx did not start: {error}") from None


async def _stop(process: asyncio.subprocess.Process, ended: asyncio.Future[int]) -> None:
    """Terminate nginx; after STOP_DEADLINE kill it and its remaining workers."""
    if not ended.done():
        process.terminate()
    await asyncio.wait({ended}, timeout=STOP_DEADLINE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await ended


def early_log(program: str) -> list[str]:
    """Return the option for a log before the configuration is read (since nginx 1.19.5)."""
    try:
        output = subprocess.run([program, "-v"], capture_output=True, timeout=5, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = re.search(rb"/(\d+)\.(\d+)\.(\d+)", output)
    version = tuple(int(part) for part in found.groups()) if found else (0,)
    return ["-e", LOG] if version >= (1, 19, 5) else []
