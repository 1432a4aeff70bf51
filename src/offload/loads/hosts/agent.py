"""The agent of a load on a host, which SSH starts there: `offload load_host`.

It reads frames from stdin and writes frames to stdout. It responds to time stamps at any time, and
starts one share of a load. It ends, with its share, when stdin ends, and when no frame has arrived
for SILENCE seconds: then the machine that measures, or the network in between, has failed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

from offload import __version__
from offload.loads import builtin
from offload.loads.hosts import protocol
from offload.loads.hosts.protocol import FrameReader
from offload.registry import places

SILENCE = 45.0  # s; longer than a step of a slower host takes, which this host waits for
PROTOCOL = 1
SHARE = "offload.loads.hosts.share"  # the module that runs as a program
PREPARED = b"ready\n"  # the first line that it writes
CHUNK = 1 << 18  # bytes of samples in a frame
MOST_CHARACTERS = 300  # of the error of a share
BOOT, NETWORK = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/net")


def facts() -> dict[str, object]:
    """Return the facts of this host: versions, limits, and what identifies its loopback."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return {
        "protocol": PROTOCOL,
        "version": __version__,
        "python": platform.python_version(),
        "builtin": builtin.version(),
        "files": None if limit == resource.RLIM_INFINITY else limit,
        **location(),
    }


def location() -> dict[str, str | None]:
    """Return which machine this is, and which network it has; None if unknown.

    `boot` is equal for processes that share CPUs, `network` for those that share loopback, too.
    """
    try:
        boot = BOOT.read_text().strip()
        return {"boot": boot, "network": f"{boot} {NETWORK.readlink()}"}
    except OSError:
        return {"boot": None, "network": None}


class Agent:
    """Serves one machine that measures, on two descriptors."""

    def __init__(self, reading: int, writing: int) -> None:
        self._frames = FrameReader(lambda: os.read(reading, 1 << 16))
        self._writing = writing
        self._sending = threading.Lock()
        self._last_frame_at = time.monotonic()
        self._share: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it is removed with this process

    def run(self) -> None:
        """Serve until the stream ends, or a frame END arrives."""
        threading.Thread(target=self._watch, name="watch", daemon=True).start()
        try:
            self._write(protocol.MAGIC)
            self._send(protocol.HELLO, json.dumps(facts()).encode())
            while (frame := self._frames.next()) is not None and frame.kind != protocol.END:
                received = time.monotonic()
                self._last_frame_at = received
                if frame.kind == protocol.PING:
                    values = {**json.loads(frame.content), "received": received}
                    with self._sending:  # no other frame may delay it after its last time stamp
                        values["replied"] = time.monotonic()
                        self._write(protocol.pack_frame(protocol.PONG, json.dumps(values).encode()))
                elif frame.kind == protocol.LOAD:
                    self._prepare(frame.content)
                elif frame.kind == protocol.START:
                    self._write_to_share(frame.content)
        except ConnectionError:  # such as BrokenPipeError: the connection has ended
            pass
        except ValueError as error:
            print(f"error: {error}", file=sys.stderr)
        finally:
            self._end_share()

    def _prepare(self, load: bytes) -> None:
        """Start the share of a load, and a thread that forwards what it writes."""
        self._end_share()
        self._share = subprocess.Popen(
            [sys.executable, "-P", "-m", SHARE, str(os.getpid())],
            env={**os.environ, **places.import_path()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._write_to_share(load)
        forward = threading.Thread(target=self._forward, args=(self._share,), daemon=True)
        forward.start()

    def _write_to_share(self, line: bytes) -> None:
        """Send a line to the share; if it has ended, `_forward` reports why."""
        if self._share is not None and self._share.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._share.stdin.write(line + b"\n")
                self._share.stdin.flush()

    def _forward(self, running: subprocess.Popen[bytes]) -> None:
        assert running.stdout is not None
        try:
            if running.stdout.readline() != PREPARED:
                self._fail(running)
                return
            self._send(protocol.READY)
            digest, count = hashlib.sha256(), 0
            while data := running.stdout.read(CHUNK):
                digest.update(data)
                count += len(data)
                self._send(protocol.DATA, data)
            if running.wait() or not count:
                self._fail(running)
                return
            done = {"sha256": digest.hexdigest(), "bytes": count}
            self._send(protocol.DONE, json.dumps(done).encode())
        except OSError:  # the connection has ended
            return

    def _fail(self, running: subprocess.Popen[bytes]) -> None:
        code = running.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        self._send(protocol.FAIL, f"its load ended with {how}{_last_line(self._errors)}".encode())

    def _send(self, kind: bytes, content: bytes = b"") -> None:
        with self._sending:
            self._write(protocol.pack_frame(kind, content))

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._writing, view) :]

    def _end_share(self) -> None:
        if self._share is not None and self._share.poll() is None:
            self._share.kill()
            self._share.wait()

    def _watch(self) -> None:
        """End this process when the other side is silent."""
        while (left := self._last_frame_at + SILENCE - time.monotonic()) > 0:
            time.sleep(left)
        self._end_share()
        os._exit(1)


def _last_line(errors: IO[bytes]) -> str:
    """Return the last line that a program wrote to stderr, behind a colon."""
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return f": {lines[-1][:MOST_CHARACTERS]}" if lines else ""


def main() -> None:
    """Serve on stdin and stdout; what anything else prints goes to stderr."""
    writing = os.dup(1)
    os.dup2(2, 1)
    Agent(0, writing).run()
