"""What servers import, and the lines of the requirements that install it."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from offload.registry import places

FILES = [places.PACKAGE / f"requirements{more}.txt" for more in ("", "-suites")]
INSIDE = {  # what is imported by another name than it is installed by
    "h11": "uvicorn",
    "starlette": "fastapi",
    "strawberry": "strawberry_graphql",
    "strawberry_django": "strawberry_graphql_django",
}


def lines(file: Path) -> list[str]:
    """Give the lines of a file without their comments."""
    found = [line.partition("#")[0].strip() for line in file.read_text().splitlines()]
    return [line for line in found if line]


def lines_for(needs: Sequence[str]) -> list[str]:
    """Give the requirements by which what a server imports is installed."""
    names = {INSIDE.get(need, need) for need in needs}
    return [line for file in FILES for line in lines(file) if _name(line) in names]


def remedy(needs: Sequence[str]) -> str:
    """Give the command that installs what a server imports."""
    if all(lines_for([need]) for need in needs):
        return "make suites"
    return f"{sys.executable} -m pip install {' '.join(needs)}"


def _name(line: str) -> str:
    """Give the name of a requirement as most are imported."""
    return re.split(r"[^\w-]", line)[0].replace("-", "_").lower()
