"""Print whether an application is ASGI or WSGI: python -m offload.serving.application_kind WORK.

The result is one line of JSON. TASK_PATH is the folder of its imports, as for servers.
"""

from __future__ import annotations

import json
import sys

from offload.errors import UserError
from offload.serving.applications import user_application


def main(arguments: list[str]) -> int:
    """Import the application and print its kinds, or its error; return the exit code."""
    try:
        kinds = user_application.kinds(arguments[0])
        print(json.dumps({"kinds": kinds, "name": user_application.name(arguments[0])}))
    except UserError as error:
        values = {"error": error.what, "remedy": error.remedy, "exit_code": error.exit_code}
        print(json.dumps(values))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
