"""The requirement lines that install the packages which servers import."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from offload.registry import places

FILES = [places.PACKAGE / f"requirements{more}.txt" for more in ("", "-suites")]
PROVIDED_BY = {  # import name: the name of the package that installs it
    "h11": "uvicorn",
    "starlette": "fastapi",
    "strawberry": "strawberry_graphql",
    "strawberry_django": "strawberry_graphql_django",
}


def lines(file: Path) -> list[str]:
    """Return the lines of a requirements file without comments."""
    found = [line.partition("#")[0].strip() for line in file.read_text().splitlines()]
    return [line for line in found if line]


def lines_for(needs: Sequence[str]) -> list[str]:
    """Return the requirement lines that install the packages in `needs`."""
    names = {PROVIDED_BY.get(need, need) for need in needs}
    return [line for file in FILES for line in lines(file) if _name(line) in names]


def remedy(needs: Sequence[str]) -> str:
    """Return the command that installs the packages in `needs`."""
    if all(lines_for([need]) for need in needs):
        return "make suites"
    return f"{sys.executable} -m pip install {' '.join(needs)}"


def _name(line: str) -> str:
    """Return the usual import name of a requirement."""
    return re.split(r"[^\w-]", line)[0].replace("-", "_").lower()
