"""Upstream: a real server on this machine, from which network tasks fetch.

`python -m offload.upstream` serves until a signal. `hold()` uses that one or starts one of its own,
which ends with the hold, or with the process that has it.
"""

from __future__ import annotations

from offload.upstream.client import Hold, Upstream, find, hold, running

__all__ = ["Hold", "Upstream", "find", "hold", "running"]
