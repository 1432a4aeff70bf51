"""What a load tool is asked, and what it answers: the same two records for every driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_SECONDS = 3600.0


@dataclass(frozen=True)
class Load:
    """What is asked of a load tool: for `seconds`, or for `requests` in all, never both.

    `users` are clients that each wait for an answer before they ask again (a closed loop).
    Without `keep_alive` every request opens a connection of its own, as siege does by default.
    `timeout` is in seconds, for one request from connecting to the last byte.
    """

    url: str
    users: int = 25
    seconds: float | None = 30.0
    requests: int | None = None
    keep_alive: bool = False
    timeout: float = 30.0


@dataclass(frozen=True)
class Command:
    """How a driver is started: words, extra environment, and files to write in its own folder.

    `{folder}` in `argv` and `environment` stands for that folder; it is removed afterwards.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """What a load tool measured. None is not known; 0 is a zero that was counted.

    `completed` counts answers with a status below 400; `failed` has the others by kind: refused,
    reset, timeout, 4xx, 5xx, unfinished (asked but not answered when time was up), other.
    `availability` is the share of finished requests that were completed, 0 to 1; unfinished ones
    are in neither. Times are in seconds, `rate` in completed requests per second. `response_how`
    says where the mean is from: "per request", or "Little's law" where the tool's clock is coarse.
    """

    elapsed_s: float | None = None
    completed: int | None = None
    failed: Mapping[str, int | None] = field(default_factory=dict)
    availability: float | None = None
    rate: float | None = None
    response_mean_s: float | None = None
    response_how: str | None = None
    response_p50_s: float | None = None
    response_p90_s: float | None = None
    response_p95_s: float | None = None
    response_p99_s: float | None = None
    response_p999_s: float | None = None
    response_max_s: float | None = None
    problem: str | None = None
