"""locks/ has the versions of requirements.lock with hashes, and all packages that are required."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from offload.registry.requirements import lines
from tests import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
PIN = re.compile(r"(?P<name>[\w.-]+)(\[[\w,-]+\])?==(?P<version>[^\s;]+)(?P<marker> ; [^\\]+?)?")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
COMPILED = ("lxml", "cryptography", "psutil", "httptools")  # with a wheel for each Python


def variables() -> dict[str, list[str]]:
    """Return the variables of the Makefile that have names of files, expanded."""
    found: dict[str, list[str]] = {}
    for name, words in re.findall(r"^(\w+_FILES|LOCKS) = (.+)$", MAKEFILE, re.MULTILINE):
        expanded = re.sub(r"\$\((\w+)\)", lambda match: " ".join(found[match[1]]), words)
        found[name] = expanded.split()
    return found


LOCKS = variables()["LOCKS"]


def pins(path: Path) -> dict[str, tuple[str, list[str]]]:
    """Return the version and the hashes of each package of a lock."""
    found = {}
    for line in path.read_text().replace("\\\n", " ").splitlines():
        text = line.partition("#")[0].strip()
        if not text:
            continue
        pin = PIN.fullmatch(text.partition(" --hash")[0].strip())
        assert pin, f"{path.name}: {line[:80]}"
        found[canonicalize_name(pin["name"])] = (pin["version"], HASH.findall(text))
    return found


def lock(name: str) -> dict[str, tuple[str, list[str]]]:
    return pins(ROOT / "locks" / f"{name}.txt")


def test_each_lock_is_compiled_and_installed_by_make() -> None:
    assert sorted(LOCKS) == sorted(path.stem for path in (ROOT / "locks").glob("*"))
    for name in LOCKS:
        assert f"-r locks/{name}.txt" in MAKEFILE, name
    assert "pip install -r" not in MAKEFILE.replace("$(LOCKED)", "")


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_of_a_lock_has_hashes(name: str) -> None:
    versions = pins(ROOT / "requirements.lock")
    for package, (version, hashes) in lock(name).items():
        assert hashes, package
        assert len(set(hashes)) == len(hashes), package
        assert versions[package][0] == version, package


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_what_is_required(name: str) -> None:
    """If this fails after a change of a requirements file: make lock."""
    found = lock(name)
    for file in variables()[f"{name}_FILES"]:
        for line in lines(ROOT / file):
            required = Requirement(line)
            package = canonicalize_name(required.name)
            assert package in found, f"{line}: make lock"
            assert required.specifier.contains(found[package][0], prereleases=True), line


def test_the_hashes_are_those_of_the_files_for_all_pythons() -> None:
    """A package in C has a wheel for each of 3.11 to 3.14 and several machines, and an sdist."""
    found = lock("setup")
    for package in COMPILED:
        assert len(found[package][1]) > 12, package


def a_wheel(folder: Path) -> tuple[Path, str]:
    """Write a small wheel; return its path and its hash."""
    path = folder / "locked_sample-1.0-py3-none-any.whl"
    info = "locked_sample-1.0.dist-info"
    files = {
        "locked_sample.py": "VALUE = 1\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: locked-sample\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
            record += f"{name},sha256={digest.decode().rstrip('=')},{len(text)}\n"
        wheel.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.server
@pytest.mark.parametrize("is_right", [True, False])
def test_pip_refuses_a_package_with_another_hash(tmp_path: Path, is_right: bool) -> None:
    path, digest = a_wheel(tmp_path)
    known = digest if is_right else "0" * 64
    required = tmp_path / "lock.txt"
    required.write_text(f"locked-sample==1.0 --hash=sha256:{known}\n")
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    command += ["--no-index", "--find-links", str(path.parent), "--target", str(tmp_path / "into")]
    done = subprocess.run(
        [*command, "--require-hashes", "-r", str(required)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode == 0) is is_right, done.stderr
    assert (tmp_path / "into" / "locked_sample.py").exists() is is_right
    assert ("DO NOT MATCH THE HASHES" in done.stderr) is not is_right
