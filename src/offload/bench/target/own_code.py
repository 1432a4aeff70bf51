"""Import the functions and applications of a user before a run, each in its own process."""

from __future__ import annotations

from collections.abc import Iterable

from offload.bench.target import application_kind, calling_process
from offload.registry import application, catalog
from offload.suites import Case


def check_imports(cases: Iterable[Case]) -> None:
    """Raise UserError if the work of a case cannot be imported, or lacks arguments.

    The code of another checkout is not imported: its server reports such an error.
    """
    here = [case for case in cases if case.origin is None]
    own = {(case.task, case.python, case.path) for case in here if catalog.is_own(case.task)}
    for work, python, path in sorted(own, key=str):
        if application.is_application(work):
            application_kind.find(work, python, path)
            continue
        module = "offload.serving.task_probe"
        with calling_process.start(
            module, work, python=python, path=path, environment={}, ready_s=calling_process.IMPORT_S
        ):
            pass
