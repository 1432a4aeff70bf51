"""Suites: one file a benchmark, which is data: the cases to measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import catalog


@dataclass(frozen=True)
class Case:
    """A server x task x load: `settings` are what the server's `serve` takes, by name.

    `users` ask at once, for `seconds` in a long run; with `keep_alive` each keeps its connection.
    `python` is the interpreter the server runs in, by name or path (None: this one), `path` a
    folder that a user's task imports from.
    """

    server: str
    task: str
    users: int = 25
    seconds: float = 20.0
    keep_alive: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)
    python: str | None = None
    path: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What tells this case from all others: its command and its load, a closed loop."""
        return (self.command, self.users, self.keep_alive, None)

    @property
    def name(self) -> str:
        """The short form: `3/sleep_sync`, `3x16@3.14/sleep_sync` with workers and interpreter."""
        word = catalog.find_server(self.server).spelling(self.task)
        workers = f"x{self.settings['workers']}" if "workers" in self.settings else ""
        python = f"@{self.python}" if self.python else ""
        return f"{word}{workers}{python}/{self.task}"

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
        """Shorten the long run to 8 s, and cut the users to 2 on a server without workers.

        There each user waits for all others, so that 25 would take most of the time to warm up.
        """
        has_workers = "workers" in catalog.find_server(self.server).settings
        return replace(self, seconds=8.0, users=self.users if has_workers else 2)
