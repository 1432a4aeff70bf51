"""gunicorn with this process as its arbiter: forked workers that serve over WSGI."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from gunicorn.app.base import BaseApplication

from offload.errors import StartError
from offload.serving.applications import user_worker, wsgi
from offload.serving.lifecycle import ports, worker_ready
from offload.serving.lifecycle.stop_signal import DRAIN


def serve(
    task: str,
    port: int,
    backlog: int,
    factory: Callable[[], Any] = wsgi.application,
    **settings: Any,
) -> None:
    """Serve the application that `factory` creates in each worker, until a stop signal.

    The default application runs any task. `settings` are gunicorn's; others have its defaults.
    """
    user_worker.check(task)
    with ports.binding(port):
        listening = socket.create_server(("127.0.0.1", port), backlog=backlog)
    worker_ready.expect(task, settings["workers"], listening.getsockname()[1])
    options = {
        "bind": f"fd://{listening.detach()}",  # gunicorn closes it
        "backlog": backlog,
        "graceful_timeout": int(DRAIN),
        "loglevel": "error",
        **settings,
    }
    arbiter = os.getpid()
    try:
        _Application(factory, options).run()
    except SystemExit as error:
        if os.getpid() != arbiter:  # a worker ends, not the server
            os._exit(int(error.code or 0))
        worker_ready.raise_failure()
        if error.code:
            raise StartError("gunicorn ended", "see its output above") from None


class _Application(BaseApplication):
    def __init__(self, factory: Callable[[], Any], settings: dict[str, Any]) -> None:
        self._factory, self._settings = factory, settings
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        return self._factory()
