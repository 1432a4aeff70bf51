"""The server that CONTRIBUTING shows serves, ends when it is told to, and says nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests import ROOT
from tests.http_clients import get
from tests.waiting import read_line

pytestmark = pytest.mark.server
SHOWN = (ROOT / "CONTRIBUTING.rst").read_text().partition(".. code-block:: python\n\n")[2]
CODE = textwrap.dedent(re.split(r"\n(?=\S)", SHOWN)[0])  # until the next line of text


def test_the_server_that_is_shown_serves_and_ends(a_copy: Path) -> None:
    (a_copy / "servers" / "shortest.py").write_text(CODE)
    words = [sys.executable, "-P", "-m", "offload.servers", "shortest", "noop_sync", "0"]
    running = subprocess.Popen(words, cwd=a_copy, stderr=subprocess.PIPE, text=True)
    try:
        url = re.search(r"http://127\.0\.0\.1:\d+/", read_line(running.stderr))
        assert url is not None
        assert get(url[0]) == (200, b"ok")
        running.terminate()
        assert running.communicate(timeout=20)[1] == ""
        assert running.returncode == 0
    finally:
        running.kill()
