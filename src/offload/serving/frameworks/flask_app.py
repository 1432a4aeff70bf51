"""A Flask application: one route that fetches from the upstream, and the task on any other."""

from __future__ import annotations

import os

from flask import Flask, Response, request

from offload import tasks
from offload.serving.applications import responses, wsgi
from offload.serving.frameworks import upstream_wait
from offload.serving.lifecycle import worker_ready
from offload.serving.metrics import process_report, task_clock


def application() -> wsgi.Wsgi:
    """Create the application in a worker process of an external server."""
    task = os.environ[worker_ready.TASK]
    tasks.resolve(task)
    app = Flask(__name__, static_folder=None)

    @app.get("/requests_sync")
    def requests_sync() -> dict[str, str]:
        return {"answer": upstream_wait.fetch(request.args.get("seconds", 0.0, float))}

    @app.get("/", defaults={"path": ""}, provide_automatic_options=False)
    @app.get("/<path:path>", provide_automatic_options=False)
    def any_other(path: str) -> Response:
        found = responses.answer_path(f"/{path}", request.query_string.decode("latin-1"))
        answer = found or responses.from_task(task_clock.call(task))
        return Response(answer.body, answer.status, content_type=answer.content_type)

    process_report.start()
    worker_ready.report()
    return wsgi.HostChecked(app)
