"""pip-audit's findings fail the check; an advisory service that cannot be reached is reported."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from offload.errors import MachineError, UsageError
from tests import ROOT

NEEDS_AUDIT = pytest.mark.skipif(
    importlib.util.find_spec("pip_audit") is None, reason="pip-audit is not installed: make check"
)
LOCK = f"tornado==6.4 --hash=sha256:{'0' * 64}\n"
FLAW = {"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["6.5"], "description": ""}


@pytest.fixture
def script() -> ModuleType:
    return importlib.import_module("scripts.checks.vulnerabilities")


def found(*packages: dict[str, object]) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess([], 1, json.dumps({"dependencies": packages}), "")


def test_a_known_vulnerability_fails_and_an_accepted_one_is_counted(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = {"name": "tornado", "version": "6.4", "vulns": [FLAW]}
    other = {"name": "x", "version": "1", "skip_reason": "not on the index"}
    monkeypatch.setattr(script, "no_advisories", lambda: None)
    monkeypatch.setattr(script, "audit", lambda _: found(package, other))
    assert script.main([]) == 1
    assert capsys.readouterr().out == (
        "tornado 6.4: PYSEC-1, fixed in 6.5\n"
        "pip-audit: 1 packages checked, 1 known vulnerabilities, 1 unknown to it\n"
    )
    monkeypatch.setattr(script, "ACCEPTED", {"CVE-1": "not used here"})
    assert script.main([]) == 0
    assert "1 advisories accepted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("package", "why"),
    [
        ({"name": "jinja2", "version": "2.4.1", "vulns": []}, "it has none of a package that"),
        ({"name": "jinja2", "skip_reason": "not found\x1b[2J"}, r"not found\x1b[2J"),
    ],
)
def test_a_service_without_advisories_is_no_success(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    package: dict[str, object],
    why: str,
) -> None:
    """pip-audit reports "no known vulnerabilities" then, with exit code 0."""
    monkeypatch.setattr(script, "audit", lambda _: found(package))
    assert script.main([]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("pip-audit: skipped, the service with the advisories cannot be ")
    assert why in printed


def test_any_other_failure_is_an_error(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "ERROR: the file\x1b[2J is odd")
    monkeypatch.setattr(script, "no_advisories", lambda: None)
    monkeypatch.setattr(script, "audit", lambda _: failed)
    with pytest.raises(MachineError, match=r"pip-audit failed: ERROR: the file\\x1b\[2J is odd"):
        script.main([])
    with pytest.raises(UsageError, match="no file 'nosuch'"):
        script.main(["nosuch"])


@NEEDS_AUDIT
@pytest.mark.server
def test_what_cannot_be_checked_is_skipped_in_one_line(tmp_path: Path) -> None:
    """The proxy refuses connections, as a machine without access to the service does."""
    lock = tmp_path / "lock.txt"
    lock.write_text(LOCK)
    closed = "http://127.0.0.1:9"
    done = subprocess.run(
        [sys.executable, "-m", "scripts.checks.vulnerabilities", str(lock)],
        cwd=ROOT,
        env={**os.environ, "HTTPS_PROXY": closed, "https_proxy": closed, "NO_PROXY": ""},
        capture_output=True,
        text=True,
        timeout=55,
    )
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (0, 1, "")
    assert done.stdout.startswith(
        "pip-audit: skipped, the service with the advisories cannot be reached: "
    )
