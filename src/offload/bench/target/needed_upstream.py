"""The upstream that a case's task may need: it runs while the servers of the case run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from offload import upstream
from offload.registry import catalog
from offload.suites import Case
from offload.upstream import Upstream


def needs_upstream(case: Case) -> bool:
    """Whether a case's task fetches from the upstream."""
    return catalog.find_task(case.task, case.path).needs_upstream


@contextmanager
def hold_for(*cases: Case) -> Iterator[Upstream | None]:
    """Start the upstream, or use the running one, if a case needs it; otherwise yield None.

    Raise StartError if it cannot start.
    """
    if not any(needs_upstream(case) for case in cases):
        yield None
        return
    with upstream.hold() as held:
        yield held.upstream
