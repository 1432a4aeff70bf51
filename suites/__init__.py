"""Suites: one file a benchmark, which is data: the cases to measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import catalog


@dataclass(frozen=True)
class Case:
    """A server x task x load: `settings` are what the server's `serve` takes, by name.

    `users` ask at once for `seconds`; with `keep_alive` each keeps its connection. `python` is the
    interpreter the server runs in (None: this one), `path` a folder that a user's task imports
    from.
    """

    server: str
    task: str
    users: int = 25
    seconds: float = 30.0
    keep_alive: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)
    python: str | None = None
    path: str | None = None

    @property
    def name(self) -> str:
        """The short form: `3/sleep_sync`, with x16 for workers that are not the default."""
        workers = f"x{self.settings['workers']}" if "workers" in self.settings else ""
        return f"{catalog.find_server(self.server).spelling(self.task)}{workers}/{self.task}"

    @property
    def command(self) -> str:
        """The command that starts this server."""
        server = catalog.find_server(self.server)
        word = server.spelling(self.task)
        words = [word] if word in server.also else [word, self.task]
        words += [f"{key}={value}" for key, value in self.settings.items()]
        words += [f"python={self.python}"] if self.python else []
        words += [f"path={self.path}"] if self.path else []
        return f"fab run_server:{','.join(words)}"

    def quick(self) -> Case:
        """Shorten the load to 10 s, and cut its users to 8 on a server without workers.

        There each user waits for all others, so that 25 would take most of the time to warm up;
        8 is 2 x the default workers of the pools.
        """
        has_workers = "workers" in catalog.find_server(self.server).settings
        return replace(self, seconds=10.0, users=self.users if has_workers else 8)
