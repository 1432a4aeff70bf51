"""Print whether an application is ASGI, WSGI or Tornado's.

The command is python -m offload.serving.application_kind WORK. The result is one line of JSON.
TASK_PATH is the folder of its imports, as for servers. All output of the application goes to
stderr.
"""

from __future__ import annotations

import contextlib
import sys
from json import dumps  # imported by name: the application may replace it in its module

from offload.errors import UsageError, UserError
from offload.registry import catalog
from offload.serving.applications import user_application
from offload.serving.lifecycle import calling, import_watch


def main(arguments: list[str]) -> int:
    """Import the application and print its kinds, or its error; return the exit code."""
    _, results = calling.begin()
    code = 0
    values: dict[str, object]

    def fail(error: UserError) -> None:
        results.write(f"{dumps(_error_values(error)[1])}\n")
        results.flush()

    starts = import_watch.Starts()
    try:
        with import_watch.watched(arguments[0].removeprefix(catalog.PREFIX), fail):
            kinds = _find_kinds(arguments[0])
        values = {
            "kinds": kinds,
            "name": user_application.name(arguments[0]),
            "has_tokens": "anyio.to_thread" in sys.modules,
            "started": starts.end(),
        }
    except UserError as error:
        code, values = _error_values(error)
    except Exception as error:  # noqa: BLE001 - attributes of an object may raise anything
        what = f"{arguments[0]} raised {user_application.reason(error)}"
        code, values = _error_values(UsageError(what, "fix it"))
    results.write(f"{dumps(values)}\n")  # the application may replace `print`
    results.flush()
    return code


def _find_kinds(work: str) -> list[str]:
    """Import the application, or once more on a running event loop, which it may need."""
    try:
        return user_application.kinds(work)
    except UsageError:
        if "asyncio" not in sys.modules:
            raise
        import asyncio

        async def find_on_loop() -> list[str]:
            return user_application.kinds(work)

        with contextlib.suppress(UsageError):
            return asyncio.run(find_on_loop())
        raise


def _error_values(error: UserError) -> tuple[int, dict[str, object]]:
    """Return the exit code and the values for an error."""
    values = {"error": error.what, "remedy": error.remedy, "exit_code": error.exit_code}
    return error.exit_code, values


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
