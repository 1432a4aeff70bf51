"""The packages that servers, tasks and reports import: what installs them, with which hashes."""

from __future__ import annotations

import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from functools import cache

from offload.registry import places

# Both files are in the wheel, too.
_FOLDER = places.CHECKOUT or places.PACKAGE
PROJECT = _FOLDER / "pyproject.toml"
LOCK = _FOLDER / "requirements.lock"
TARGETS = {  # the target of make that installs each extra or group
    "suites": "suites",
    "cluster": "suites",
}
PROVIDED_BY = {  # import name: the name of the package that installs it
    "PIL": "pillow",
    "argon2": "argon2_cffi",
    "dateutil": "python_dateutil",
    "h11": "uvicorn",
    "jwt": "pyjwt",
    "starlette": "fastapi",
    "strawberry": "strawberry_graphql",
    "strawberry_django": "strawberry_graphql_django",
    "yaml": "pyyaml",
}


def lines_for(needs: Sequence[str]) -> list[str]:
    """Return the requirements, with lowest versions, that install the packages in `needs`."""
    known = {name: line for lines in _required().values() for name, line in lines.items()}
    return [line for name, line in known.items() if name in _package_names(needs)]


def remedy(needs: Sequence[str]) -> str:
    """Return the command that installs the packages in `needs`."""
    names = _package_names(needs)
    targets: dict[str, str] = {}
    for target, provided in _required().items():
        targets.update({name: target for name in names if name in provided.keys() - targets.keys()})
    if places.CHECKOUT is not None and all(name in targets for name in names):
        used = set(targets.values()) - {"setup"}  # the others run it
        return f"make {' '.join(sorted(used, reverse=True)) or 'setup'}"
    return f"{sys.executable} -m pip install {' '.join(names)}"


def pins(needs: Sequence[str]) -> list[str]:
    """Return the locked version of each package in `needs`, such as tornado==6.5.2."""
    lines, _ = _lock()
    names = {_name(line) for line in lines_for(needs)}
    return [lines[name][0].partition(" ")[0] for name in lines if name in names]


def locked(requirement: str) -> list[str]:
    """Return the lines of the lock, with hashes, for a requirement and for all that it requires."""
    lines, dependents = _lock()
    found, size = {_name(requirement)}, 0
    while size < len(found):
        size = len(found)
        found |= {name for name in lines if dependents[name] & found}
    return [line for name in sorted(found) for line in lines[name]]


@cache
def _required() -> dict[str, dict[str, str]]:
    """Return the requirements by the target that installs them, and by the name of the package."""
    project = tomllib.loads(PROJECT.read_text())
    found = {"setup": _by_name(project["project"]["dependencies"])}
    groups = project["project"]["optional-dependencies"] | project["dependency-groups"]
    for name, target in TARGETS.items():
        lines = [line for line in groups[name] if isinstance(line, str)]
        found[target] = found.get(target, {}) | _by_name(lines)
    return found


def _by_name(lines: Sequence[str]) -> dict[str, str]:
    return {_name(line): line for line in lines}


@cache
def _lock() -> tuple[dict[str, list[str]], dict[str, set[str]]]:
    """Return the lines of each package in the lock, and the packages that require it.

    A package has several lines if different Pythons need different versions.
    """
    lines: defaultdict[str, list[str]] = defaultdict(list)
    dependents: defaultdict[str, set[str]] = defaultdict(set)
    name = ""
    for line in LOCK.read_text().replace("\\\n", "").splitlines():
        if line.startswith("    # via "):
            dependents[name] |= {
                _name(word) for word in line.removeprefix("    # via ").split(", ")
            }
        elif not line.startswith("#"):
            name = _name(line)
            lines[name].append(" ".join(line.split()))
    return dict(lines), dependents


def _package_names(needs: Sequence[str]) -> list[str]:
    """Return the names of the packages that install modules, each once."""
    return list(dict.fromkeys(PROVIDED_BY.get(need, need).lower() for need in needs))


def _name(line: str) -> str:
    """Return the usual import name of a requirement."""
    return re.split(r"[^\w-]", line)[0].replace("-", "_").lower()
