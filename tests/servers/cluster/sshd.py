"""An sshd on loopback with keys and a port of its own, and a home folder that knows it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import wait_until

PROGRAM = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
HOSTS = ("one", "two")  # names in the SSH configuration, both for this machine

CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
PidFile none
"""
CLIENT = """
Host one two
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/key
  IdentitiesOnly yes
"""


@contextmanager
def running(folder: Path, more: str = "") -> Iterator[Path]:
    """Run sshd, and yield a home folder whose SSH configuration has HOSTS.

    `more` is added to the configuration of sshd.
    """
    assert PROGRAM is not None
    for name in ("host_key", "key"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(words, check=True, timeout=20)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    (folder / "sshd_config").write_text(CONFIG.format(port=port, folder=folder) + more)
    home = folder / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "config").write_text(CLIENT.format(port=port, folder=folder))
    key = (folder / "host_key.pub").read_text()
    (home / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd separates its privileges there
    process = subprocess.Popen(
        [PROGRAM, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=subprocess.PIPE
    )
    try:
        assert wait_until(lambda: _listens(port) or process.poll() is not None)
        assert process.poll() is None, process.stderr
        yield home
    finally:
        process.terminate()
        process.communicate(timeout=20)


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
