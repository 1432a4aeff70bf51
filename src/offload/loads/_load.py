"""A load, which is the input of every driver: what is sent, from where, and a driver's command."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from offload.loads._message import Message, split_credentials


@dataclass(frozen=True)
class Window:
    """The part of a load that the figures describe; by default all of it.

    Only `builtin` supports it; h2load supports `warm`.

    With `warm`, `cycles` or `completions` it starts after `warm` seconds, when every user has had a
    response. It lasts the load's `seconds`. If there are fewer than `cycles` responses per user or
    `completions` in total by then, it is extended to at most `longest` seconds. After its end,
    users send further requests until every request that was in flight at its end has a response.
    Without `refills` each user stops after that response, so that no backlog remains on a serial
    server. Without `waits` the window starts and ends without waiting for users: one whose
    connection was dropped by a full listen queue may need a minute to reconnect.
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
    """An open loop: requests arrive at `rate` per second; `process` is uniform or poisson.

    The load's users are the maximum number of connections. A request without a free connection
    waits, and its response time starts at its scheduled time.
    """

    rate: float
    process: str = "uniform"


@dataclass(frozen=True)
class Load:
    """A load: it lasts `seconds`, or `requests` in total, or `each` requests per user.

    Each of the `users` waits for a response before it sends its next request (a closed loop),
    unless there are `arrivals`. Without `keep_alive` every request opens its own connection, as
    siege does by default. `timeout` is in seconds and covers one request from connecting to the
    last byte. `each` is for a warm-up after which no request is in flight (`builtin` only): a user
    stops when it has had this number of responses and `seconds` are over, and the load ends when
    all users have stopped.

    `ca` is a CA certificate file that https trusts in addition to the system's; the default is
    UPSTREAM_CA. A user pauses `think` seconds on average before each further request, uniformly
    from 0.5 to 1.5 times that. The same `seed` repeats these pauses and poisson arrivals. The users
    are divided among `processes`. A response whose body has another SHA-256 than `response_sha256`
    fails; only `builtin` checks that.

    Credentials are removed from the URL and sent in the header `Authorization`.
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
        """Whether the load continues before or after its window."""
        window = self.window
        return bool(self.arrivals or window.warm or window.cycles or window.completions)


@dataclass(frozen=True)
class Command:
    """How to start a load tool: arguments, additional environment, and files for its folder.

    `{folder}` in `argv` and `environment` is replaced by that folder, which is removed at the end.
    `threads` is the maximum number of cores that the tool can use; None is one per user.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    threads: int | None = None


@dataclass(frozen=True)
class Sender:
    """The machines that send a load: `hosts` by SSH, or this machine if there are none.

    On this machine the load tool uses only `cpus` (none: all). `allow` are names of other machines
    to which the load may be sent: without them it may only be sent to this machine.
    """

    hosts: tuple[str, ...] = ()
    cpus: tuple[int, ...] = ()
    allow: tuple[str, ...] = ()


HERE = Sender()
