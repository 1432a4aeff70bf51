"""nginx as a reverse proxy in front of a server, with connections to it that are kept alive.

It listens on two ports. On the first one it forwards a request after it has received the whole
body, on the second one while the body arrives; a body in chunks is then forwarded in chunks. Unlike
nginx by default, it forwards fields with invalid names, as less strict proxies do.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from offload import prctl
from offload.bench.faults.machine.waiting import wait_until
from offload.bench.faults.row import NotAvailable
from offload.errors import StartError
from offload.upstream import embedded, nginx

START_S, STOP_S = 5.0, 5.0
PASSED = "passed.log"
RUNS_TASK = (200, 502, 504)  # 502, 504: nginx did not receive the response
CONFIGURATION = """\
daemon off;
{user}worker_processes 1;
pid nginx.pid;
error_log {log} warn;
events {{ worker_connections 512; }}
http {{
    log_format passed "$upstream_status|$request_method|$request_uri";
    access_log {passed} passed;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    ignore_invalid_headers off;
    underscores_in_headers on;
    upstream server {{ server 127.0.0.1:{port}; keepalive 4; }}
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host 127.0.0.1;
    proxy_ignore_client_abort on;
    proxy_read_timeout 10s;
    server {{
        listen 127.0.0.1:{buffered};
        location / {{ proxy_pass http://server; }}
    }}
    server {{
        listen 127.0.0.1:{streaming};
        proxy_request_buffering off;
        location / {{ proxy_pass http://server; }}
    }}
}}
"""


@dataclass(frozen=True)
class ForwardedRequest:
    """A request that nginx forwarded, and the server's statuses: several if nginx repeated it."""

    method: str
    target: str
    statuses: tuple[int, ...]

    @property
    def tasks(self) -> int:
        """How often the server may have run its task for it."""
        if self.method not in ("GET", "HEAD"):
            return 0
        return sum(status in RUNS_TASK for status in self.statuses)


@dataclass
class Proxy:
    """A running nginx; `ports` are its ports by what it does with bodies."""

    ports: dict[str, int]
    folder: Path
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """End it after its requests, so that its log is complete; kill what remains."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_S)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP_S)

    def forwarded_requests(self) -> list[ForwardedRequest]:
        """Return the requests that it has forwarded so far, in the order of their ends."""
        found = []
        for line in (self.folder / PASSED).read_text(errors="backslashreplace").splitlines():
            statuses, method, target = line.split("|", 2)
            numbers = tuple(int(each) for each in statuses.split(", ") if each.isdigit())
            if numbers:
                found.append(ForwardedRequest(method, target, numbers))
        return found


@contextmanager
def in_front_of(port: int) -> Iterator[Proxy]:
    """Run nginx in front of a port of 127.0.0.1; raise NotAvailable or StartError."""
    program = nginx.find()
    if program is None:
        raise NotAvailable("nginx is not installed: make suites installs it")
    buffered, streaming = embedded.free_ports((0, 0))
    with tempfile.TemporaryDirectory(
        prefix="offload-proxy-", dir=nginx.public_folder()
    ) as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)  # as root, its workers are another user's
        text = CONFIGURATION.format(
            user=nginx.user_line(),
            log=nginx.LOG,
            passed=PASSED,
            port=port,
            buffered=buffered,
            streaming=streaming,
        )
        (folder / "nginx.conf").write_text(text)
        ports = {"whole bodies": buffered, "bodies as they arrive": streaming}
        proxy = Proxy(ports, folder, _start(program, folder))
        try:
            if wait_until(lambda: all(map(_accepts, ports.values())), START_S) is None:
                log = folder / nginx.LOG
                lines = log.read_text().splitlines() if log.exists() else []
                raise StartError("nginx did not start", lines[-1] if lines else "it has no log")
            yield proxy
        finally:
            proxy.stop()


def _start(program: str, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [program, "-p", f"{folder}/", "-c", "nginx.conf", *nginx.early_log(program)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C reaches the lab only, which then stops nginx
        preexec_fn=prctl.parent_death_hook(os.getpid(), signal.SIGTERM),  # noqa: PLW1509
    )


def _accepts(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
        return True
    return False
