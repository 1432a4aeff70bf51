"""Small applications, each with one cause of a limit, or none; ADVISED lists them.

``python -m lab check_advice applications=yes`` advises on them. They are imported from this folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Seeded:
    """An application, its request, and the cause that is seeded in it.

    `packages` are what it imports. `python` is the kind of interpreter that it needs: None is any.
    `named` are words with which the cause is reported.
    """

    app: str
    cause: str
    packages: tuple[str, ...] = ()
    request: str = "/quote/7"
    users: int = 25
    python: str | None = None
    named: str = ""


ADVISED = (
    Seeded("starlette_blocked:app", "loop_blocked", ("starlette",)),
    Seeded("starlette_middleware:app", "loop_blocked", ("starlette",)),
    Seeded("tornado_blocked:app", "loop_blocked", named="GET /quote/{}"),
    Seeded("fastapi_mixed:app", "loop_blocked", ("fastapi",)),
    Seeded("fastapi_forty:app", "thread_limit", ("fastapi",), users=100),
    Seeded("fastapi_gil:app", "gil_saturated", ("fastapi",)),
    Seeded("flask_gil:app", "gil_saturated", ("flask",)),
    Seeded("flask_tables:app", "background_gil", ("flask",), named="(flask_tables.py:"),
    Seeded("flask_workers:app", "gil_saturated", ("flask",)),
    Seeded("starlette_body:app", "loop_blocked", ("starlette",), named="the response body of GET"),
    Seeded("starlette_background:app", "loop_blocked", ("starlette",), named="a background task"),
    Seeded("fastapi_pool:app", "waits_elsewhere", ("fastapi",), named="POOL, a queue.Queue of 2"),
    Seeded("plain_pool:app", "waits_elsewhere", named="connections.POOL, a queue.Queue of 2"),
    Seeded("flask_executor:app", "waits_elsewhere", ("flask",), named="PRINTERS"),
    Seeded(
        "starlette_semaphore:create()", "waits_elsewhere", ("starlette",), named="Semaphore of 4"
    ),
    Seeded("fastapi_to_thread:app", "default_executor", ("fastapi",), named="default executor"),
    Seeded("plain_resolves:app", "default_executor", named="getaddrinfo"),
    Seeded("fastapi_shared_threads:app", "default_executor", ("fastapi",)),
    Seeded("fastapi_beside:app", "nothing", ("fastapi",)),
    Seeded("fastapi_rows:app", "thread_hops", ("fastapi",), named="its body has 400 parts"),
    Seeded("fastapi_rows_async:app", "nothing", ("fastapi",)),
    Seeded("starlette_export:app", "body_parts", ("starlette",), named="has 1,000 parts"),
    Seeded("plain_connects:app", "new_connections", named="opens 1 new connection"),
    Seeded("fastapi_own_threads:app", "nothing", ("fastapi",)),
    Seeded("fastapi_forgets:app", "backlog_grows", ("fastapi",), named="of 2 threads"),
    Seeded("fastapi_audits:app", "nothing", ("fastapi",)),
    Seeded("starlette_spawns:app", "backlog_grows", ("starlette",), named="tasks are started"),
    Seeded("starlette_expires:app", "nothing", ("starlette",)),
    Seeded("starlette_body_awaits:app", "nothing", ("starlette",)),
    Seeded("starlette_catalogue:app", "collector", ("starlette",)),
    Seeded("flask_catalogue:app", "collector", ("flask",)),
    Seeded("starlette_rows:app", "nothing", ("starlette",)),
    Seeded("fastapi_report:app", "arenas", ("fastapi",)),
    Seeded("flask_report:app", "arenas", ("flask",)),
    Seeded("fastapi_files:app", "gil_saturated", ("fastapi",)),
    Seeded("numpy_products:app", "blas_threads", ("numpy",), users=8),
    Seeded("plain_import:app", "gil_import", python="free-threaded"),
    Seeded("seeded_site.asgi:application", "nothing", ("django",), request="/awaits/7"),
    Seeded("seeded_site.wsgi:application", "nothing", ("django",), request="/waits/7"),
    Seeded("plain_awaits:app", "nothing"),
    Seeded("plain_slows:app", "unexplained"),
    Seeded("fastapi_health:app", "thread_limit", ("fastapi",), request="/report/7", users=60),
    Seeded("plain_health:app", "loop_blocked"),
)
