"""offload watch and the sampler report the same rho of a running gunicorn, uvicorn and granian.

lab/experiments/watch_effect.py compares both within 0.05, and measures the effect of watching on
the server.
"""

from __future__ import annotations

import importlib

import pytest

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
    script = importlib.import_module("lab.experiments.watch_effect")
    monkeypatch.setattr(script, "SECONDS", 4.0)
    monkeypatch.setattr(script, "WITHIN", 0.15)  # three times what the script requires
    assert script._agrees(name)
