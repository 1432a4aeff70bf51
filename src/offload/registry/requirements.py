"""The requirement lines that install the packages which servers import."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from offload.registry import places

TARGETS = {  # the target of make that installs the packages of each file
    places.PACKAGE / "requirements.txt": "setup",
    places.PACKAGE / "requirements-pictures.txt": "setup",
    places.PACKAGE / "requirements-suites.txt": "suites",
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
    "vl_convert": "vl_convert_python",
    "yaml": "pyyaml",
}


def lines(file: Path) -> list[str]:
    """Return the lines of a requirements file without comments."""
    found = [line.partition("#")[0].strip() for line in file.read_text().splitlines()]
    return [line for line in found if line]


def lines_for(needs: Sequence[str]) -> list[str]:
    """Return the requirement lines that install the packages in `needs`."""
    names = {PROVIDED_BY.get(need, need) for need in needs}
    return [line for file in TARGETS for line in lines(file) if _name(line) in names]


def remedy(needs: Sequence[str]) -> str:
    """Return the command that installs the packages in `needs`."""
    names = [PROVIDED_BY.get(need, need) for need in needs]
    targets: dict[str, str] = {}
    for file, target in TARGETS.items():
        provided = {_name(line) for line in lines(file)}
        targets.update({name: target for name in names if name in provided - targets.keys()})
    if places.CHECKOUT is not None and all(name in targets for name in names):
        used = set(targets.values()) - {"setup"}  # the others run it
        return f"make {' '.join(sorted(used, reverse=True)) or 'setup'}"
    return f"{sys.executable} -m pip install {' '.join(names)}"


def _name(line: str) -> str:
    """Return the usual import name of a requirement."""
    return re.split(r"[^\w-]", line)[0].replace("-", "_").lower()
