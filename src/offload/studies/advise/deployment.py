"""The command line that serves an application as advised, with the server's own program."""

from __future__ import annotations

import shlex
from pathlib import Path

from offload.engine.server import find_interpreter
from offload.registry import catalog
from offload.studies.advise.evidence import Setup
from offload.suites import Case

DJANGO = "django.core.{kind}:get_{kind}_application"  # the factory for Django settings


def command(case: Case, setup: Setup, name: str | None, preload: bool = False) -> str | None:
    """Return the command in one line; None for a server without DEPLOY and FACTORY.

    `name` is the application's name in its module; None for settings of Django.
    """
    server = catalog.find_server(setup.server)
    form, factory_form = server.constants.get("DEPLOY"), server.constants.get("FACTORY")
    if not isinstance(form, str) or not isinstance(factory_form, str):
        return None
    spelling = catalog.parse_application(case.task)
    where, folder = spelling.where, case.path
    variables = {}
    if spelling.is_file:
        path = Path(where).absolute()
        where, folder = path.stem, str(path.parent)
    is_factory, target = spelling.is_factory, f"{where}:{name}"
    if name is None:
        variables["DJANGO_SETTINGS_MODULE"] = where
        is_factory, target = True, DJANGO.format(kind=server.serves)
    if folder is not None:
        variables = {"PYTHONPATH": folder, **variables}
    app = _quoted(factory_form if is_factory else "{app}", target)
    line = form.format(
        processes=setup.processes,
        threads=setup.workers or server.settings.get("workers"),
        app=app,
        preload=" --preload" if preload else "",
    )
    if case.python is not None:
        program, _, rest = line.partition(" ")
        line = f"{shlex.quote(find_interpreter(case.python))} -m {program} {rest}"
        line = line.replace("-m waitress-serve", "-m waitress")
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), line])


def _quoted(form: str, target: str) -> str:
    """Return a form with its `{app}`, quoted for a shell: a file may have any name."""
    if form.startswith("'"):  # the whole word is quoted
        return shlex.quote(form.strip("'").format(app=target))
    return form.format(app=shlex.quote(target))
