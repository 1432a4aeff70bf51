"""Flask (WSGI), served by gunicorn."""

from __future__ import annotations

from offload.studies.advise.handlers import _program, _wsgi
from offload.studies.advise.handlers._program import Plan

PACKAGES = ("flask", *_wsgi.SERVER)
ROUTE = """\
@app.get("/")
def answer():
    {body}
    return Response(body or b"", content_type="{media_type}")"""


def handler(plan: Plan) -> tuple[str, str]:
    """Return the program and the command that starts it."""
    imports = ["from flask import Flask, Response", *_wsgi.imports(plan)]
    application = "\n\n".join([*_wsgi.before(plan), "app = Flask(__name__)"])
    body = _program.indent(_wsgi.body(plan), 4)
    route = ROUTE.format(body=body, media_type=plan.media_type)
    return _program.program(plan, "Flask", imports, application, route), _wsgi.start(plan)
