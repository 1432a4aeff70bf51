"""Upstream: a real server on this machine, from which network tasks fetch.

`python -m offload.upstream` serves until a signal. `hold()` uses the running upstream or starts
one, which ends with its last holder, however that holder ends.
"""

from __future__ import annotations

from offload.upstream.client import Hold, hold, running
from offload.upstream.facts_file import Upstream

__all__ = ["Hold", "Upstream", "hold", "running"]
