"""Suites: one data file per benchmark, with the cases to measure and the claims about them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from offload.registry import catalog, places
from offload.suites._claim import Audit, Availability, Claim, Figure, cases_of_claims
from offload.suites._load import ANYWHERE, Placement, Request
from offload.suites._origin import Origin

__all__ = [
    "Audit",
    "Availability",
    "Case",
    "Claim",
    "Figure",
    "Origin",
    "Placement",
    "Request",
    "cases_of_claims",
]

QUICK_S = 4.0  # duration of the long run with quick; the short runs give the interval


@dataclass(frozen=True)
class Case:
    """A server, a task and a load; `settings` are keyword arguments of the server's `serve`.

    `task` may also be a user's application: `app=shop.web:app`. `users` is the number of concurrent
    users and `seconds` the duration of the long run; with `keep_alive` each user keeps its
    connection. `python` is the server's interpreter, a name or a path (None: this one). `path` is
    a folder from which a user's task or application imports. Users send `request` (default:
    `GET /`). With `requests` the long run has that number of requests instead of a duration.
    `clients` is the number of load processes. `in_quick` contains the fields that `quick` changes
    besides the duration of the long run (None: see `quick`). `slots` is the number of requests
    that each server process handles concurrently (None: unlimited, or reported by the server).
    `origin` is where the server starts from (None: this checkout and environment). `placement` is
    where the load is sent from, and the CPUs of both sides. `variables` are environment variables
    of the server's processes, such as MALLOC_ARENA_MAX.
    """

    server: str
    task: str
    users: int = 25
    seconds: float = 20.0
    keep_alive: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)
    python: str | None = None
    path: str | None = None
    request: Request | None = None
    requests: int | None = None
    clients: int = 1
    in_quick: Mapping[str, object] | None = None
    slots: int | None = None
    origin: Origin | None = None
    placement: Placement = ANYWHERE
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[object, ...]:
        """The identity of this case: its id and its load, which is always a closed loop."""
        request = () if self.request is None else self.request.key
        return (self.id, self.users, self.keep_alive, None, *request)

    @cached_property
    def id(self) -> str:
        """Server, settings, interpreter, task and origin: `threads(workers=16)/sleep_sync`.

        It does not depend on the server's alias on the command line.
        """
        pairs = ",".join(f"{key}={self.settings[key]}" for key in sorted(self.settings))
        settings = f"({pairs})" if pairs else ""
        python = f"@{self.python}" if self.python else ""
        path = f" path={self.path}" if self.path else ""
        place = self.placement.label
        more = f"{self._from}{place}{self._variables}"
        return f"{self.server}{settings}{python}/{self.task}{path}{more}"

    @property
    def name(self) -> str:
        """The short form: `3/sleep_sync`, `3x2x16-protected@3.14/sleep_sync` with settings."""
        server = catalog.find_server(self.server)
        spelling = server.spelling(self.task)
        size = self.settings.get(server.size or "")
        workers = "" if size is None else f"x{size}"
        if {"workers", "processes"} <= self.settings.keys():
            workers = f"x{self.settings['processes']}x{self.settings['workers']}"
        protect = "-protected" if self.settings.get("protect") == "yes" else ""
        python = f"@{self.python}" if self.python else ""
        request = f" {self.request.short_form}" if self.request else ""
        task = places.display_name(self.task)
        if self.origin is not None and self.origin.folder is not None:
            task = task.replace(f"{self.origin.folder}{os.sep}", "")
        place = self.placement.label
        more = f"{self._from}{place}{self._variables}"
        return f"{spelling}{workers}{protect}{python}/{task}{request}{more}"

    @property
    def _from(self) -> str:
        return f" from {self.origin.label}" if self.origin else ""

    @property
    def _variables(self) -> str:
        return "".join(f" {name}={text}" for name, text in sorted(self.variables.items()))

    @cached_property  # reads the files of all servers, and a run uses it thousands of times
    def words(self) -> tuple[str, ...]:
        """The words of the command that starts this server: `run_server`, `3`, `sleep_sync`."""
        server = catalog.find_server(self.server)
        spelling = server.spelling(self.task)
        arguments = [spelling] if spelling in server.also else [spelling, self.task]
        arguments += [f"{key}={value}" for key, value in self.settings.items()]
        arguments += [f"python={self.python}"] if self.python else []
        arguments += [f"path={self.path}"] if self.path else []
        return ("run_server", *arguments)

    @property
    def command(self) -> str:
        """The words in the spelling of labels: `run_server:3,sleep_sync`."""
        return f"{self.words[0]}:{','.join(self.words[1:])}"

    def quick(self) -> Case:
        """Shorten the long run to 4 s, and reduce the users to 2 on a server without workers.

        A server without workers handles requests sequentially: the warm-up of 25 users would take
        most of the time. A case with `in_quick` keeps its users unless `in_quick` changes them.
        """
        if self.in_quick is not None:
            changed: dict[str, Any] = {"seconds": QUICK_S, **self.in_quick}
            return replace(self, **changed)
        has_workers = catalog.find_server(self.server).size == "workers"
        return replace(self, seconds=QUICK_S, users=self.users if has_workers else 2)
