"""Install packages in .venv by uv: only the versions in requirements.lock, with the hashes there.

Usage: .venv/bin/python scripts/install/packages.py [--python PYTHON] NAME ...
       .venv/bin/python scripts/install/packages.py --lock [--upgrade]

NAME is an extra or a dependency group of pyproject.toml, or a package of the lock. The packages of
the project, and the project itself, are installed with groups and extras. --lock writes the lock.
uv uses the package index that pip is configured to use.
"""

from __future__ import annotations

import ast
import os
import re
import ssl
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "pyproject.toml"
LOCK = ROOT / "requirements.lock"
PIN = re.compile(r"[\w-]+==\S+")
PROJECTS = ("-e", str(ROOT / "pipepool"), "-e", str(ROOT))
# Each is the name of pip's setting: the variable of uv.
VARIABLES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "retries": "UV_HTTP_RETRIES",
    "keyring-provider": "UV_KEYRING_PROVIDER",
}


# Further settings of pip that hold when it installs uv; those that are not listed, such as user and
# target, would install it elsewhere, or from its source.
KEPT = (*VARIABLES, "no-index", "cache-dir", "no-cache-dir", "use-feature")


class Failed(Exception):
    """What ended the installation, in words for the user."""


def main(words: Sequence[str]) -> int:
    """Install what `words` name, or write the lock; return the exit code."""
    try:
        if words[:1] == ["--lock"]:
            write_lock(words[1:])
        elif words[:1] == ["--python"]:
            install(words[2:], str(Path(words[1]).absolute()))
        else:
            install(words, sys.executable)
    except Failed as failed:
        print(failed, file=sys.stderr)
        return 3
    return 0


def install(names: Sequence[str], python: str) -> None:
    """Install extras, groups and packages for an interpreter; raise Failed."""
    settings = pip_settings()
    uv = find_uv(settings)
    environment = uv_environment(settings, os.environ)
    command = [uv, "pip", "install", "-q", "-p", python, "--compile-bytecode"]
    command += ["--no-index"] if is_true(settings.get("no-index", "")) else []  # has no variable
    # Packages without a wheel are built with packages of the lock, too.
    command += ["--build-constraints", str(LOCK), "--require-build-hashes"]
    command += ["--preview-features", "build-dependency-hashes"]
    locked = [*command, "--require-hashes", "-c", str(LOCK), "--excludes", "/dev/stdin"]
    problem = run([*locked, *requirements(names)], environment)
    if problem is None and is_project(names):
        problem = run([*command, "--no-deps", *PROJECTS], environment)
    if problem is not None:
        raise Failed(problem)


def requirements(names: Sequence[str]) -> list[str]:
    """Return the words by which uv installs extras, groups and packages."""
    groups = project_table()["dependency-groups"]
    extras = project_table()["project"]["optional-dependencies"]
    words = ["-r", str(PROJECT)] if is_project(names) else []
    for name in names:
        if name in extras:
            words += ["--extra", name]
        elif name in groups:
            words += ["--group", f"{PROJECT}:{name}"]
        elif (pin := PIN.match("".join(locked_lines(name)))) is not None:
            words.append(pin[0])
        else:
            raise Failed(f"{name} is no extra and no group of pyproject.toml, nor in {LOCK.name}")
    return words


def is_project(names: Sequence[str]) -> bool:
    """Return whether the project and its packages are to be installed, too."""
    table = project_table()
    known = {*table["project"]["optional-dependencies"], *table["dependency-groups"]}
    return not names or bool(known & set(names))


def project_table() -> dict[str, Any]:
    """Return the content of pyproject.toml."""
    return tomllib.loads(PROJECT.read_text())


def write_lock(options: Sequence[str]) -> None:
    """Resolve all extras and groups together, for all supported Pythons and platforms.

    Versions in the present lock are kept where they fit, unless `--upgrade` is given.
    """
    words = ["-q", "--universal", "--python-version", "3.11", "--generate-hashes", "--no-header"]
    words += ["--annotation-style", "line", "--all-extras", "--excludes", "/dev/stdin"]
    words += [word for name in project_table()["dependency-groups"] for word in ("--group", name)]
    settings = pip_settings()
    command = [find_uv(settings), "pip", "compile", *words, *options, PROJECT.name, "-o", LOCK.name]
    if (problem := run(command, uv_environment(settings, os.environ))) is not None:
        raise Failed(problem)


def run(command: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Run uv; return None, or what it printed if it failed.

    The process pool is in this checkout and not on an index: it is excluded by the standard input.
    """
    done = subprocess.run(
        command, cwd=ROOT, env=environment, input="pipepool\n", text=True, capture_output=True
    )
    return None if done.returncode == 0 else done.stderr.strip() or f"uv: exit {done.returncode}"


def find_uv(settings: Mapping[str, str]) -> str:
    """Return uv's path; install it by pip with the hashes of the lock if it is not in .venv."""
    path, [pinned] = Path(sys.executable).with_name("uv"), locked_lines("uv")
    if path.exists():
        have = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
        if pinned.startswith(f"uv=={have.split()[1]} "):
            return str(path)
    with tempfile.TemporaryDirectory(prefix="uv-") as folder:
        required = Path(folder, "uv.txt")
        required.write_text(pinned)
        command = [*pip(), "install", "-q", "--no-deps", "--require-hashes", "-r", str(required)]
        done = subprocess.run(command, env=pip_environment(settings, os.environ))
        if done.returncode != 0 or not path.exists():
            raise Failed(
                "uv cannot be installed by pip: check pip's package index (pip config list)"
            )
    return str(path)


def locked_lines(name: str) -> list[str]:
    """Return the lines of a package in the lock, as requirements with hashes."""
    lines = LOCK.read_text().replace("\\\n", " ").splitlines()
    return [line + "\n" for line in lines if line.startswith(f"{name}==")]


def pip() -> list[str]:
    """Return the command of this interpreter's pip."""
    return [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def pip_environment(settings: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which pip has only those settings that are in KEPT."""
    others = {name: value for name, value in variables.items() if not name.startswith("PIP_")}
    kept = {f"PIP_{n.upper().replace('-', '_')}": settings[n] for n in KEPT if n in settings}
    return {**others, **kept, "PIP_CONFIG_FILE": os.devnull}


def pip_settings() -> dict[str, str]:
    """Return pip's settings for installations, from its files and its environment variables."""
    variables = {**os.environ, "PIP_QUIET": "0"}  # it would list nothing
    variables.pop("PIP_PYTHON", None)  # it would run another one's pip
    command = [*pip(), "config", "list"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed((done.stderr.strip().splitlines() or ["pip config list failed"])[-1])
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in done.stdout.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in found:
            found[section][name.replace("_", "-")] = ast.literal_eval(value)
    merged = {**found["global"], **found["install"], **found[":env:"]}
    if "default-timeout" in merged:
        merged.setdefault("timeout", merged["default-timeout"])
    return merged


def uv_environment(settings: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which uv uses the same indexes and certificates as pip.

    Values that pip's users write in files and variables are lists separated by spaces. Variables
    of uv that are already set win.
    """
    found = {}
    for name, variable in VARIABLES.items():
        words = settings.get(name, "").split()
        if not words:
            continue
        if name == "find-links":
            words = [place for word in words if (place := link_place(word)) is not None]
            found[variable] = ",".join(words)
        elif name == "keyring-provider":
            found[variable] = "subprocess" if words[0] != "disabled" else "disabled"
        elif name == "timeout":
            found[variable] = str(round(float(words[0])) or 1)
        else:
            found[variable] = " ".join(words)
    bundle = variables.get("REQUESTS_CA_BUNDLE") or variables.get("CURL_CA_BUNDLE")
    certificates = found.pop("SSL_CERT_FILE", None) or bundle
    if certificates is not None:
        is_folder = Path(certificates).expanduser().is_dir()
        found["SSL_CERT_DIR" if is_folder else "SSL_CERT_FILE"] = certificates
    elif has_system_certificates():
        found["UV_SYSTEM_CERTS"] = "1"
    # pip compares the files of all indexes; so does uv here. Hashes decide which file is accepted.
    found["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    if not has_cache(variables):
        found["UV_NO_CACHE"] = "1"
    return {**{name: value for name, value in found.items() if value}, **variables}


def link_place(word: str) -> str | None:
    """Return a place of find-links for uv; None for a folder that does not exist, as pip does."""
    if urlsplit(word).scheme in ("http", "https", "file"):
        return word.replace(",", "%2C")
    path = Path(word).expanduser().absolute()
    return path.as_uri() if path.exists() else None


def is_true(word: str) -> bool:
    """Return whether pip takes the value of a switch for yes."""
    return word.lower() in ("1", "y", "yes", "t", "true", "on")


def has_system_certificates() -> bool:
    """Return whether this machine has a store of certificates."""
    places = ssl.get_default_verify_paths()
    return bool(places.cafile or (places.capath and any(Path(places.capath).iterdir())))


def has_cache(variables: Mapping[str, str]) -> bool:
    """Return whether uv can create its cache."""
    named = variables.get("UV_CACHE_DIR") or variables.get("XDG_CACHE_HOME")
    try:
        folder = Path(named or "~/.cache").expanduser()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return False
    return os.access(folder, os.W_OK)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
