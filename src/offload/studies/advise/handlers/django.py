"""Django (WSGI), served by gunicorn."""

from __future__ import annotations

from offload.studies.advise.handlers import _django, _program, _wsgi
from offload.studies.advise.handlers._program import Plan

PACKAGES = (_django.PACKAGE, *_wsgi.SERVER)
IMPORTS = (*_django.IMPORTS, "from django.core.wsgi import get_wsgi_application")
VIEW = """\
def answer(request):
    {body}
    {response}"""


def handler(plan: Plan) -> tuple[str, str]:
    """Return the program and the command that starts it."""
    body = _program.indent(_wsgi.body(plan), 4)
    blocks = [
        "\n\n".join([*_wsgi.before(plan), _django.SETTINGS]),
        VIEW.format(body=body, response=_django.RESPONSE.format(media_type=plan.media_type)),
        f"{_django.URLS}\napp = get_wsgi_application()",
    ]
    imports = [*IMPORTS, *_wsgi.imports(plan)]
    return _program.program(plan, "Django", imports, *blocks), _wsgi.start(plan)
