"""Of a live gunicorn, uvicorn and granian, rho from outside is the rho of the meter inside.

scripts/watch_effect.py compares both within 0.05, and measures what watching costs the server.
"""

from __future__ import annotations

import importlib

import pytest

from tests import ROOT
from tests.installed import require

pytest.importorskip("elftools", reason="make setup installs pyelftools")

SERVERS = ("gunicorn_gthread", "uvicorn_httptools", "granian_wsgi")


@pytest.mark.suites
@pytest.mark.timing
@pytest.mark.parametrize("name", SERVERS)
def test_rho_by_watch_agrees_with_the_meter_inside(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require(name)
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    script = importlib.import_module("watch_effect")
    monkeypatch.setattr(script, "SECONDS", 4.0)
    monkeypatch.setattr(script, "WITHIN", 0.15)  # three times what the script requires
    assert script._agrees(name)
