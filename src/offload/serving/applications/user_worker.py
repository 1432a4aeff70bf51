"""Create the application of a server, for a task or a user's own, in its worker processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from offload import tasks
from offload.errors import UserError
from offload.registry.catalog import is_application
from offload.serving.lifecycle import worker_ready
from offload.serving.metrics import own_gil, probe, process_report

BOOT_ERROR = 3  # gunicorn and granian do not restart a worker with this exit code

Created = TypeVar("Created")


def check(work: str) -> None:
    """Resolve a task before the workers start; raise UsageError.

    A user's application is imported only in the workers: if their parent imported it, they would
    inherit its memory and connections.
    """
    if not is_application(work):
        tasks.resolve(work)


def create(factory: Callable[[str], Created], work: str) -> Created:
    """Create the application of a worker; end the worker if that fails, and report why.

    Then the worker reports its figures. An application of a user starts its report by itself.
    """
    own_gil.watch_gil()
    probe.collect_on_request()
    try:
        created = factory(work)
    except UserError as error:
        worker_ready.fail(error)
        raise SystemExit(BOOT_ERROR) from None
    if not is_application(work):
        process_report.start()
    return created
