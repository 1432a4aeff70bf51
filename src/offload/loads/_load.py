"""Loads: the input of every driver, and the command that a driver returns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from offload.loads._message import Message, split_credentials


@dataclass(frozen=True)
class Window:
    """The part of a load that the figures describe; by default all of it.

    It is for `builtin` only, apart from `warm`, which h2load has, too.

    With `warm`, `cycles` or `completions` it starts after `warm` seconds and when every user has
    had a response. It lasts the load's `seconds`, and longer if needed for `cycles` responses per
    user and `completions` in total, but then at most `longest` seconds. Users keep sending until
    every request that was in flight at the window's end is answered. With `refills` off each user
    stops after that response, so that no backlog remains on a sequential server. With `waits` off
    the window neither starts nor ends by waiting for users: a user dropped by a full listen queue
    may need a minute to reconnect.
    """

    warm: float = 0.0
    cycles: float = 0.0
    completions: int = 0
    longest: float = 60.0
    waits: bool = True
    refills: bool = True

    def responses(self, users: int) -> int:
        """Return the minimum number of responses in the window."""
        return max(self.completions, math.ceil(self.cycles * users))


@dataclass(frozen=True)
class Arrivals:
    """An open loop: requests arrive at `rate` per second, as a `process` uniform or poisson.

    The load's users are its connections, at most. A request that finds no free connection waits,
    and its response time counts from its scheduled start.
    """

    rate: float
    process: str = "uniform"


@dataclass(frozen=True)
class Load:
    """A load: it lasts `seconds`, or `requests` in total, or `each` requests per user.

    Each of the `users` waits for a response before it sends its next request (a closed loop),
    unless there are `arrivals`. Without `keep_alive` every request opens its own connection, as
    siege does by default. `timeout` is in seconds and covers one request from connecting to the
    last byte. With `each`, a user stops after that many responses once `seconds` are over, and the
    load ends when all users have stopped: a warm-up that leaves nothing in flight, for `builtin`
    only.

    `ca` is a CA certificate file that https trusts in addition to the system's; the default is
    UPSTREAM_CA. A user pauses `think` seconds on average before each further request, uniformly
    from 0.5 to 1.5 times that. `seed` repeats these pauses and poisson arrivals. The users are
    divided among `processes`. A response whose body has another SHA-256 than `response_sha256`
    fails; only `builtin` checks that.

    Credentials in the URL become a header `Authorization`, and the `url` has none.
    """

    url: str
    users: int = 25
    seconds: float | None = 30.0
    requests: int | None = None
    each: int | None = None
    keep_alive: bool = False
    timeout: float = 30.0
    message: Message = field(default_factory=Message)
    ca: str | None = None
    think: float = 0.0
    seed: int = 0
    processes: int = 1
    response_sha256: str | None = None
    window: Window = Window()
    arrivals: Arrivals | None = None

    def __post_init__(self) -> None:
        url, authorization = split_credentials(self.url)
        if authorization is None:
            return
        object.__setattr__(self, "url", url)  # it is frozen
        if self.message.header("authorization") is None:
            headers = {**self.message.headers, "Authorization": authorization}
            object.__setattr__(self, "message", replace(self.message, headers=headers))

    @property
    def has_window(self) -> bool:
        """Whether the load has a warm-up before its window, or a tail after it."""
        window = self.window
        return bool(self.arrivals or window.warm or window.cycles or window.completions)


@dataclass(frozen=True)
class Command:
    """How a driver is started: arguments, extra environment, files to write in its own folder.

    `{folder}` in `argv` and `environment` is replaced by that folder, which is removed at the end.
    `threads` is how many of its threads or processes can use a core each; None is one per user.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    threads: int | None = None
