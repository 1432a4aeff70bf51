"""Upstream: the real server beside the one under test, from which network tasks fetch.

`python -m offload.upstream` serves until a signal; `hold()` uses the running one or starts one,
which ends with its last holder, however that holder ends.
"""

from __future__ import annotations

from offload.upstream.client import Holding, hold, running
from offload.upstream.facts_file import Upstream

__all__ = ["Holding", "Upstream", "hold", "running"]
