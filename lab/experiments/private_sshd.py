"""A private sshd: its own keys, configuration and port, for checks of load from several hosts."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

READY_S = 10.0
SEPARATION = Path("/run/sshd")  # Debian's sshd needs this folder if root starts it
MISSING = "sshd is missing: sudo apt install openssh-server, or set SSHD=/path/to/sshd"


def find() -> str | None:
    """Return the path of sshd, or of the environment variable SSHD; None if it is missing."""
    path = os.environ.get("SSHD") or shutil.which("sshd", path=f"{os.defpath}:/usr/sbin:/sbin")
    return path if path and Path(path).is_file() else None


@dataclass(frozen=True)
class Sshd:
    """A running sshd, for the current user and the key `key` only."""

    address: str
    port: int
    key: Path
    known_hosts: Path
    log: Path

    def client_lines(self, *names: str) -> str:
        """Return the SSH configuration of a client that calls this host by some names."""
        return "\n".join(
            [
                f"Host {' '.join(names)}",
                f"    HostName {self.address}",
                f"    Port {self.port}",
                f"    User {getpass.getuser()}",
                f"    IdentityFile {self.key}",
                f"    UserKnownHostsFile {self.known_hosts}",
                "",
            ]
        )


@contextmanager
def running(
    folder: Path,
    address: str,
    port: int,
    path: Sequence[str | Path],
    prefix: Sequence[str] = (),
) -> Iterator[Sshd]:
    """Start sshd in `folder`, and end it and its sessions after the block; raise RuntimeError.

    Sessions have `path` as their PATH. `prefix` is a command that runs sshd, such as ip netns exec.
    """
    program = find()
    if program is None:
        raise RuntimeError(MISSING)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("host_key", "user_key"):
        _run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)])
    shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
    known_hosts = folder / "known_hosts"
    public = (folder / "host_key.pub").read_text().split()[:2]
    known_hosts.write_text(f"[{address}]:{port} {' '.join(public)}\n")
    config, log = folder / "sshd_config", folder / "log"
    config.write_text(
        f"ListenAddress {address}:{port}\n"
        f"HostKey {folder}/host_key\n"
        f"AuthorizedKeysFile {folder}/authorized_keys\n"
        f"PidFile {folder}/pid\n"
        "StrictModes no\nUsePAM no\nPasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
        f"SetEnv PATH={':'.join(map(str, path))}\n"
    )
    with _separation(), log.open("wb") as errors:
        process = subprocess.Popen(
            [*prefix, program, "-D", "-e", "-f", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
        )
        try:
            _await_listening(process, log)
            yield Sshd(address, port, folder / "user_key", known_hosts, log)
        finally:
            _end(process)


def _await_listening(process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + READY_S
    while b"Server listening" not in log.read_bytes():
        if process.poll() is not None or time.monotonic() > until:
            lines = log.read_text(errors="replace").strip().splitlines() or ["no output"]
            raise RuntimeError(f"sshd does not start: {lines[-1]}")
        time.sleep(0.01)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill sshd, its sessions and what they started."""
    found = []
    with suppress(psutil.NoSuchProcess):
        found = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait(10)
    for each in found:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    psutil.wait_procs(found, timeout=10)


@contextmanager
def _separation() -> Iterator[None]:
    """Create the folder that sshd needs, if it is missing, and remove it afterwards."""
    is_ours = os.getuid() == 0 and not SEPARATION.exists()
    if is_ours:
        SEPARATION.mkdir(mode=0o755)
    try:
        yield
    finally:
        if is_ours:
            with suppress(OSError):  # another one uses it
                SEPARATION.rmdir()


def _run(words: Sequence[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise RuntimeError(f"{words[0]}: {done.stderr.strip()}")
