"""The laboratory: how good is the tool itself? `python -m lab` lists what stands here."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "lab" / "data"  # what was measured, for the pages


def environment() -> dict[str, str]:
    """Return the variables with which a child process imports this package and the product."""
    from offload.registry import places

    return {**os.environ, **places.import_path(search=[str(ROOT)])}
