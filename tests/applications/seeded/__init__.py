"""Small applications, each with one cause of a limit, or none; ADVISED lists them.

lab/experiments/advise_applications.py advises on each. This folder is the path of their imports.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Seeded:
    """An application, its request, and the cause that is seeded in it.

    `packages` are what it imports. `python` is the kind of interpreter that it needs: None is any.
    """

    app: str
    cause: str
    packages: tuple[str, ...] = ()
    request: str = "/quote/7"
    users: int = 25
    python: str | None = None


ADVISED = (
    Seeded("starlette_blocked:app", "loop_blocked", ("starlette",)),
    Seeded("starlette_middleware:app", "loop_blocked", ("starlette",)),
    Seeded("fastapi_mixed:app", "loop_blocked", ("fastapi",)),
    Seeded("fastapi_forty:app", "thread_limit", ("fastapi",), users=100),
    Seeded("fastapi_gil:app", "gil_saturated", ("fastapi",)),
    Seeded("flask_gil:app", "gil_saturated", ("flask",)),
    Seeded("fastapi_pool:app", "waits_elsewhere", ("fastapi",)),
    Seeded("plain_pool:app", "waits_elsewhere"),
    Seeded("plain_import:app", "gil_import", python="free-threaded"),
    Seeded("seeded_site.asgi:application", "nothing", ("django",), request="/awaits/7"),
    Seeded("seeded_site.wsgi:application", "nothing", ("django",), request="/waits/7"),
    Seeded("plain_awaits:app", "nothing"),
)
