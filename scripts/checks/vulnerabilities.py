"""Check the packages in requirements.lock for known vulnerabilities, by pip-audit.

Usage: python -m scripts.checks.vulnerabilities [LOCK ...]

LOCK are files with hashes; default: requirements.lock. The exit code is 1 if a package has a known
vulnerability. First the advisories of one package with known vulnerabilities are requested. If
there are none, the service cannot be reached, and nothing is checked: this is printed in one line
with the word `skipped`, and the exit code is 0. pip-audit itself reports "no known vulnerabilities"
if the index has no advisories.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from offload.errors import MachineError, UsageError, escaped
from scripts.script import ROOT, run

TIMEOUT_S = 300.0
REQUEST_S = 15  # timeout of one request
PROBE = f"jinja2==2.4.1 --hash=sha256:{'0' * 64}\n"  # has known vulnerabilities
# Accepted advisories, each with its reason: {"PYSEC-2026-1": "why it does not concern us"}
ACCEPTED: dict[str, str] = {}


def main(words: list[str]) -> int:
    """Audit the files, and print what was found."""
    files = [Path(word) for word in words] or [ROOT / "requirements.lock"]
    for file in files:
        if not file.is_file():
            raise UsageError(f"no file {str(file)!r}", "name a lock, such as requirements.lock")
    if (why := no_advisories()) is not None:
        print(f"pip-audit: skipped, the service with the advisories cannot be reached: {why}")
        return 0
    found = packages(audit(files))
    checked = [each for each in found if "skip_reason" not in each]
    vulnerable = [line for each in checked for line in lines(each)]
    for line in vulnerable:
        print(line)
    counts = [f"{len(checked)} packages checked", f"{len(vulnerable)} known vulnerabilities"]
    counts += [f"{len(found) - len(checked)} unknown to it"] if len(found) > len(checked) else []
    counts += [f"{len(ACCEPTED)} advisories accepted"] if ACCEPTED else []
    print(f"pip-audit: {', '.join(counts)}")
    return 1 if vulnerable else 0


def no_advisories() -> str | None:
    """Return why the service reports no vulnerability of PROBE; None if it does."""
    with tempfile.TemporaryDirectory(prefix="advisories-") as folder:
        probe = Path(folder, "probe.txt")
        probe.write_text(PROBE)
        done = audit([probe])
    try:
        [package] = packages(done)
    except MachineError as error:
        return error.what
    if package.get("vulns"):
        return None
    return escaped(str(package.get("skip_reason", "it has none of a package that has some")))


def audit(files: list[Path]) -> subprocess.CompletedProcess[str]:
    """Run pip-audit on files with hashes, without an installation; raise MachineError."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes"]
    command += ["--format", "json", "--progress-spinner", "off", "--timeout", str(REQUEST_S)]
    command += [word for file in files for word in ("-r", str(file))]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=ROOT)
    except subprocess.TimeoutExpired:
        what = f"pip-audit did not end within {TIMEOUT_S:.0f} s"
        raise MachineError(what, "check the network") from None


def packages(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return what pip-audit reports of each package; raise MachineError."""
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        what = f"pip-audit failed: {last[:200]}"
        raise MachineError(what, "run it as scripts.checks.vulnerabilities.py does") from None
    return found


def lines(package: dict[str, Any]) -> list[str]:
    """Return a line for each vulnerability of a package that is not accepted."""
    found = []
    for each in package["vulns"]:
        names = {each["id"], *each.get("aliases", ())}
        if names & ACCEPTED.keys():
            continue
        fixed = ", ".join(each.get("fix_versions", ())) or "no release"
        found.append(f"{package['name']} {package['version']}: {each['id']}, fixed in {fixed}")
    return found


if __name__ == "__main__":
    run(main)
