"""Real agents on pipes instead of SSH: everything but the connection is as on another host."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import psutil

from offload.loads.hosts.agent import SHARE
from offload.loads.hosts.remote_host import RemoteHost

AGENT = (sys.executable, "-P", "-m", "offload.loads.hosts")


class PipeChannel:
    """The stdin and stdout of a local agent."""

    def __init__(self, words: Sequence[str] = AGENT) -> None:
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        if self.process.stdin.closed:
            raise BrokenPipeError("it is closed")
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def receive(self, timeout_s: float) -> bytes:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], timeout_s)[0]:
            raise TimeoutError
        return os.read(self.process.stdout.fileno(), 1 << 16)

    def exit_report(self) -> tuple[int | None, str]:
        code = self.process.wait(10)
        assert self.process.stderr is not None
        text = os.read(self.process.stderr.fileno(), 1 << 16).decode()
        return code, (text.strip().splitlines() or [""])[-1]

    def close(self) -> None:
        """Close stdin, as the end of a connection does."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def share(self) -> psutil.Process | None:
        """Return the first process of its load, if it runs."""
        for child in psutil.Process(self.process.pid).children(recursive=True):
            try:
                words, parent = child.cmdline(), child.parent()
                is_first = parent is not None and SHARE not in parent.cmdline()
            except psutil.Error:
                continue
            if SHARE in words and is_first:
                return child
        return None


@contextmanager
def agents(
    *names: str, words: Sequence[Sequence[str]] = ()
) -> Iterator[tuple[list[RemoteHost], list[PipeChannel]]]:
    """Start an agent for each name; after the block all must end within 10 s."""
    with ExitStack() as stack:
        channels = []
        for number, _ in enumerate(names):
            channel = PipeChannel(words[number] if words else AGENT)
            stack.callback(_end, channel)
            channels.append(channel)
        yield [RemoteHost(n, c) for n, c in zip(names, channels, strict=True)], channels


def _end(channel: PipeChannel) -> None:
    channel.close()
    try:
        channel.process.wait(10)
    finally:
        channel.process.kill()
        channel.process.wait(10)
        for stream in (channel.process.stdout, channel.process.stderr):
            assert stream is not None
            stream.close()
