"""A running server whose task is chosen for each request."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from offload.engine import server
from offload.registry import catalog
from offload.suites import Case
from tests.http_clients import get
from tests.servers import any_task

ANY = f"{Path(__file__).with_name('any_task.py')}:any_task"
FAULTS = Path(__file__).with_name("faults.py")


class Chosen:
    """A server that runs any task; a pool has four workers.

    It is started again when a test has ended it."""

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str] = {}) -> None:
        self.name = name
        self.folder = folder
        self._environment = {**environment, **files_in(folder)}
        self._running = self._start()

    def _start(self) -> server.Server:
        settings = {"workers": 4} if catalog.find_server(self.name).size == "workers" else {}
        case = Case(self.name, ANY, settings=settings, path=str(self.folder))
        return server.start(case, self._environment)

    @property
    def running(self) -> server.Server:
        """The server, which is alive."""
        if self._running.process.poll() is not None:
            server.stop(self._running)
            self._running = self._start()
        return self._running

    def choose(self, task: str) -> server.Server:
        """Have every request from now on run a task, and forget the events so far."""
        (self.folder / "task").write_text(task)
        (self.folder / "events").write_text("")
        return self.running

    def answer(self, task: str) -> tuple[int, bytes]:
        """Return the response of a task."""
        return get(self.choose(task).url)

    def events(self) -> list[str]:
        """List what began and ended, in order, since the task was chosen."""
        return (self.folder / "events").read_text().splitlines(keepends=True)

    def stop(self) -> None:
        """Stop the server."""
        server.stop(self._running)


def files_in(folder: Path) -> dict[str, str]:
    """Return the environment of a server that runs ANY, with its files in a folder."""
    return {"ANY_TASK": str(folder / "task"), "ANY_EVENTS": str(folder / "events")}


def has_started(folder: Path) -> bool:
    """Whether a task has started; it is running unless it has ended."""
    events = folder / "events"
    return events.is_file() and any_task.BEGINS in events.read_text()
