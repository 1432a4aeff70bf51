"""gunicorn with this process as its arbiter: forked workers that serve over WSGI or ASGI."""

from __future__ import annotations

import gc
import os
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter

from offload.errors import StartError
from offload.registry.catalog import is_application
from offload.serving.applications import user_worker, wsgi
from offload.serving.lifecycle import drain, log, readiness, worker_ready
from offload.serving.lifecycle.stop_signal import DRAIN
from offload.serving.metrics import own_gil, process_report

POLL = 0.05  # s


def serve(
    task: str,
    port: int,
    backlog: int,
    factory: Callable[[], Any] = wsgi.application,
    **settings: Any,
) -> None:
    """Serve the application that `factory` creates in each worker, until a stop signal.

    The default application runs any task. `settings` are gunicorn's; others have its defaults. With
    `preload` the arbiter creates the application before it forks; "freeze" also excludes its
    objects from garbage collections, which would write to pages that the workers share.
    """
    preload = settings.pop("preload", "no")
    settings["preload_app"] = preload != "no"
    if preload == "freeze":
        settings["pre_fork"] = _freeze
    if settings["worker_class"] == "gevent":
        _resolve_in_child(task)
    else:
        user_worker.check(task)
    with readiness.binding(port):
        listening = socket.create_server((readiness.address(), port), backlog=backlog)
    reports = settings["workers"] + settings.get("dirty_workers", 0)
    if settings["preload_app"]:
        has_lifespan = is_application(task) and factory is not wsgi.application
        reports += not has_lifespan  # of the arbiter, which creates the application
        process_report.leave_to_children()
        hook = _start_lifespan_worker if has_lifespan else _start_worker
        settings = {**settings, "post_worker_init": hook}
    worker_ready.expect(task, reports, listening.getsockname()[1])
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
            if isinstance(error.code, str):  # of sys.exit in an application: Python prints it, too
                log.failure(f"a worker exits: {error.code}")
            os._exit(error.code if isinstance(error.code, int) else bool(error.code))
        worker_ready.raise_failure()
        if error.code:
            raise StartError("gunicorn ended", "see its output above") from None


def _freeze(_arbiter: Any, _worker: Any) -> None:
    gc.collect()
    gc.freeze()


def _start_lifespan_worker(_: Any) -> None:
    """Set up a worker that was forked from a preloaded application; it ends with the arbiter."""
    worker_ready.work()
    own_gil.watch_gil()
    process_report.start_in_child()


def _start_worker(worker: Any) -> None:
    """Set up a worker without a lifespan, and report that it is ready."""
    _start_lifespan_worker(worker)
    worker_ready.ready()


def _resolve_in_child(task: str) -> None:
    """Resolve a task in a child process; raise its error if it cannot run.

    The task is not imported here: gevent patches the standard library in the workers, and the patch
    does not change names that were imported earlier.
    """
    with ProcessPoolExecutor(1, get_context("fork")) as executor:
        try:
            executor.submit(_resolve, task).result()
        except BrokenProcessPool:
            raise StartError(f"importing {task} ended its process", "fix it") from None


def _resolve(task: str) -> None:
    user_worker.check(task)


class _Application(BaseApplication):
    def __init__(self, factory: Callable[[], Any], settings: dict[str, Any]) -> None:
        self._factory, self._settings = factory, settings
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._settings.items():
            self.cfg.set(name, value)
        if "control_socket_disable" in self.cfg.settings:  # 25.1 has one in the home folder
            self.cfg.set("control_socket_disable", True)

    def load(self) -> Any:
        return self._factory()

    def run(self) -> None:
        try:
            _Arbiter(self).run()
        except RuntimeError as error:  # such as a worker class that cannot be imported
            lines = [line for line in str(error).splitlines() if line.strip(" ]")]
            raise StartError(f"gunicorn: {lines[0].strip()} {lines[-1].strip()}") from error


class _Arbiter(Arbiter):
    """An arbiter that refuses clients first and stops its dirty workers last.

    The other workers wait for their results.
    """

    def stop(self, graceful: bool = True) -> None:
        for listening in self.LISTENERS:
            drain.refuse_new(listening.sock)
        if graceful and self.dirty_arbiter_pid:
            until = time.monotonic() + DRAIN
            self.kill_workers(signal.SIGTERM)
            while self.WORKERS and time.monotonic() < until:
                self.reap_workers()
                time.sleep(POLL)
            graceful = not self.WORKERS
        super().stop(graceful)
