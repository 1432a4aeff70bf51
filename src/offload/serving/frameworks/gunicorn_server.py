"""gunicorn in this process, which is its arbiter: forked workers that serve by WSGI."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from gunicorn.app.base import BaseApplication

from offload import tasks
from offload.errors import StartError
from offload.serving.applications import wsgi
from offload.serving.lifecycle import ports, worker_ready
from offload.serving.lifecycle.stop_signal import DRAIN


def serve(
    task: str,
    port: int,
    backlog: int,
    make: Callable[[], Any] = wsgi.application,
    **settings: Any,
) -> None:
    """Serve what each worker makes, any task unless given, until a stop signal.

    `settings` are gunicorn's own, with its defaults for others.
    """
    tasks.resolve(task)
    with ports.binding(port):
        listening = socket.create_server(("127.0.0.1", port), backlog=backlog)
    worker_ready.expect(task, settings["workers"], listening.getsockname()[1])
    told = {
        "bind": f"fd://{listening.detach()}",  # gunicorn closes it
        "backlog": backlog,
        "graceful_timeout": int(DRAIN),
        "loglevel": "error",
        **settings,
    }
    arbiter = os.getpid()
    try:
        _Application(make, told).run()
    except SystemExit as error:
        if os.getpid() != arbiter:  # a worker's end, which is not the server's
            os._exit(int(error.code or 0))
        if error.code:
            raise StartError("gunicorn ended: see its own words") from None


class _Application(BaseApplication):
    def __init__(self, make: Callable[[], Any], settings: dict[str, Any]) -> None:
        self._make, self._settings = make, settings
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        return self._make()
