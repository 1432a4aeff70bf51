"""The upstream that a case's task needs: it runs as long as the servers of the case."""

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
    """Start or share the upstream if a case needs it, else yield None; raise StartError."""
    if not any(needs_upstream(case) for case in cases):
        yield None
        return
    with upstream.hold() as held:
        yield held.upstream
