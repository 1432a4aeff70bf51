"""The server that CONTRIBUTING shows serves, ends when it is told to, and says nothing else."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import catalog
from tests.asking import get
from tests.commands import free_port

SHOWN = (catalog.ROOT / "CONTRIBUTING.rst").read_text().partition(".. code-block:: python\n\n")[2]
CODE = textwrap.dedent(SHOWN.partition("\nHouse style")[0])


def test_the_server_that_is_shown_serves_and_ends(a_copy: Path) -> None:
    (a_copy / "servers" / "shortest.py").write_text(CODE)
    port = free_port()
    words = [sys.executable, "-m", "servers", "shortest", "noop_sync", str(port)]
    running = subprocess.Popen(words, cwd=a_copy, stderr=subprocess.PIPE, text=True)
    try:
        assert running.stderr is not None
        assert f"http://127.0.0.1:{port}/" in running.stderr.readline()
        assert get(f"http://127.0.0.1:{port}/") == (200, b"ok")
        running.terminate()
        assert running.communicate(timeout=20)[1] == ""
        assert running.returncode == 0
    finally:
        running.kill()
