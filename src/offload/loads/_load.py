"""A load and its result, in the same form for every driver.

A driver makes a `Command` of a `Load`, and a `LoadResult` of what that command printed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import SplitResult, unquote, unquote_plus, urlsplit

from offload.errors import Flag, UsageError

# What is sent
MASK = "***"
BODY_MARK = "sha256:"  # of a body that records do not show
NEXT_HEADER = re.compile(r";\s*(?=[!#$%&'*+.^_`|~0-9A-Za-z-]+:)")
FORM = "application/x-www-form-urlencoded"  # the default of load tools
# Headers whose values records may show; the value of any other header may be a secret.
HARMLESS = {
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-type",
    "user-agent",
}


@dataclass(frozen=True)
class Message:
    """The content of every request of a load, in addition to its URL.

    The content type of a body is JSON if it looks like JSON, else that of a form, unless `headers`
    has a Content-Type. Headers are added to those of the tool, or replace them.
    """

    method: str = "GET"
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def header(self, name: str) -> str | None:
        """Return the value of a header, whose name is case-insensitive; None if it is not set."""
        known = {each.lower(): value for each, value in self.headers.items()}
        return known.get(name.lower())

    @property
    def content_type(self) -> str | None:
        """The content type; a message without a body may have none."""
        given = self.header("content-type")
        return given if self.body is None else given or content_type(self.body)

    @property
    def lines(self) -> list[str]:
        """All headers without the Content-Type, as `Name: value`."""
        return [f"{k}: {v}" for k, v in self.headers.items() if k.lower() != "content-type"]

    def masked(self) -> Message:
        """Return the message without secrets, for records."""
        shown = {k: v if k.lower() in HARMLESS else MASK for k, v in self.headers.items()}
        return replace(self, headers=shown)

    def mask(self, text: str, url: str = "") -> str:
        """Return a text without the secrets of the headers, of the body and of queries.

        `url` is the one that was requested: its secrets are masked wherever they stand.
        """
        if self.body is not None and len(self.body) >= SHORTEST and self.body in text:
            text = text.replace(self.body, body_facts(self.body))
        for secret in sorted({*self._secrets(url)}, key=len, reverse=True):
            text = text.replace(secret, MASK)
            if len(secret) > LONG:  # the text may have its beginning only
                text = re.sub(re.escape(secret[:LONG]) + r"[^\s'\"]*", lambda _: MASK, text)
        return mask_query(text)

    def _secrets(self, url: str) -> Iterator[str]:
        """Yield the secrets of the headers, of the body and of a URL, with their parts."""
        found: list[str] = []
        for name, value in self.headers.items():
            if name.lower() in HARMLESS:
                continue
            scheme, _, secret = value.partition(" ")
            is_scheme = name.lower().endswith("authorization") and secret
            found.append(secret if is_scheme else value)
            if is_scheme and scheme.lower() == "basic":
                found.append(_decoded(secret).partition(":")[2])
            if name.lower() == "cookie":
                found += [each.partition("=")[2] for each in value.split("; ")]
        for text in (url, f"?{self.body or ''}"):
            for each in _PARAMETER.finditer(text):
                if _masked_parameter(each) != each[0]:
                    found += [each[3], unquote_plus(each[3])]
        for name, value in _JSON_FIELD.findall(self.body or ""):
            if _SECRET_NAME.search(name):
                found += [value, _unescaped(value)]
        yield from (each for each in found if len(each) >= SHORTEST)


def content_type(body: str) -> str:
    """Return the content type of a request's body: JSON if it looks like JSON, else a form."""
    return "application/json" if body.lstrip()[:1] in ("{", "[") else FORM


def parse_headers(text: str, name: str = "header") -> dict[str, str]:
    """Parse headers `Name: value`; a `;` separates them if the name of another header follows.

    Raise UsageError; `name` is the name of the option in its message.
    """
    found: dict[str, str] = {}
    for part in NEXT_HEADER.split(text) if text else []:
        header, colon, value = part.partition(":")
        if not colon:  # do not show the text: it may be a secret
            raise UsageError(f"a header in {name}= has no name", f"write {name}='Name: value'")
        if header.strip() in found:
            raise UsageError(f"{name}= has {header.strip()[:40]!r} twice", "use one of them")
        found[header.strip()] = value.strip()
    return found


def request_target(parts: SplitResult) -> str:
    """Return the path and the query of a URL as in the first line of a request."""
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def split_credentials(url: str) -> tuple[str, str | None]:
    """Return a URL without its `user:password@`, and the value of their header Authorization.

    The value is None for a URL without credentials.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # the checks before a load report it
        return url, None
    credentials, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    token = base64.b64encode(unquote(credentials).encode()).decode()
    return parts._replace(netloc=host).geturl(), f"Basic {token}"


# How it is sent


@dataclass(frozen=True)
class Window:
    """The part of a load that the figures describe; by default all of it.

    Only `builtin` supports it; h2load supports `warm`.

    With `warm`, `cycles` or `completions` it starts after `warm` seconds, when every user has had a
    response. It lasts the load's `seconds`. If there are fewer than `cycles` responses per user or
    `completions` in total by then, it is extended to at most `longest` seconds. After its end,
    users send further requests until every request that was in flight at its end has a response.
    Without `refills` each user stops after that response, so that no backlog remains on a serial
    server. `waits_s` is the maximum time that its start, and then the end of the load, wait for
    users: one whose connection was dropped by a full listen queue may need a minute to reconnect.

    With `patience` the load stops before the end of its window if no request succeeds for so many
    seconds, or if ever fewer do.
    """

    warm: float = 0.0
    cycles: float = 0.0
    completions: int = 0
    longest: float = 60.0
    waits_s: float | None = None
    refills: bool = True
    patience: float | None = None

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

    A user pauses `think` seconds on average before each further request, uniformly from 0.5 to 1.5
    times that. The same `seed` repeats these pauses and poisson arrivals. The users are divided
    among `processes`. A response whose body has another SHA-256 than `response_sha256` fails; only
    `builtin` checks that.

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
class Sender:
    """The machines that send a load: `hosts` by SSH, or this machine if there are none.

    On this machine the load tool uses only `cpus` (none: all). `allow` are names of other machines
    to which the load may be sent: without them it may only be sent to this machine.
    """

    hosts: tuple[str, ...] = ()
    cpus: tuple[int, ...] = ()
    allow: tuple[str, ...] = ()


HERE = Sender()


# What must not be shown
SHORTEST = 4  # characters of a secret that is masked in other texts
LONG = 12  # characters with which a longer secret is recognized if its end was cut
# Parameters of a query whose values are secrets, as a part of their names.
_SECRET_NAME = re.compile(
    r"token|key(?!word|board)|secret|passw|passphrase|pwd|credential|auth(?!ors?$)|session|jwt|bearer|cookie"
    r"|signature|private|otp|nonce|(?<![a-z])(?:pass|sig|sid|hmac|mac|pin|code|hash)(?![a-z])",
    re.IGNORECASE,
)
_INNER_NAME = re.compile(r"([^=&;#?/]+)=")
_JSON_FIELD = re.compile(r'"([^"\\]*)"\s*:\s*"((?:[^"\\]|\\.)*)"')
_PARAMETER = re.compile(r"([?&;])([^=&;#?/\s]*)=([^&;#\s\"'<>]*)")


def mask_query(text: str) -> str:
    """Return a text with the values of those parameters in its URLs masked that may be secrets.

    >>> mask_query("/quote?size=2&api_key=abc")
    '/quote?size=2&api_key=***'
    """
    return _PARAMETER.sub(_masked_parameter, text)


def has_secret(url: str) -> bool:
    """Whether a parameter of a URL may be a secret."""
    return mask_query(url) != url


def _masked_parameter(found: re.Match[str]) -> str:
    mark, name, value = found.groups()
    is_secret = _SECRET_NAME.search(unquote(name)) is not None
    if not is_secret and ("=" in value or "%" in value):  # it may be a URL or a query, too
        inner = unquote(unquote(value))
        is_secret = any(_SECRET_NAME.search(each[1]) for each in _INNER_NAME.finditer(inner))
    return f"{mark}{name}={MASK}" if is_secret and value else found[0]


def body_facts(body: str) -> str:
    """Return what records show of a body: its SHA-256 and its length."""
    content = body.encode("utf-8", "surrogateescape")
    return f"{BODY_MARK}{hashlib.sha256(content).hexdigest()}, {len(content)} bytes"


def _decoded(text: str) -> str:
    """Decode Base64; return an empty text if it is none."""
    try:
        return base64.b64decode(text).decode()
    except ValueError:
        return ""


def _unescaped(text: str) -> str:
    """Return the value of a string in JSON."""
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text


# What a driver needs


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


CLOSED_LOOP_ONLY = {  # fields that simple closed-loop tools do not support: names of the features
    "arrivals": "open loop",
    "each": "warm-up of its own",
    "warm": "warm-up of its own",
    "cycles": "window within its load",
    "completions": "window within its load",
    "think": "think time",
}
COUNT, NUMBER = r"(\d{1,15})", r"(\d{1,15}(?:\.\d{1,9})?)"  # patterns of tools' output


def quantum_of_count(users: int, completed: int) -> float | None:
    """Return the quantization error of completed / elapsed: one batch of users, as a share."""
    return users / completed if completed else None


# The result


@dataclass(frozen=True)
class Response:
    """Response times of single requests in seconds; `how` is the method that measured the mean.

    `histogram` counts the times in mergeable buckets (`loads/engine/figures.py`), with an
    error of at most 1 %.

    In an open loop, `late_*` is the delay with which the tool handled an arrival, and `waited_*`
    the time for which requests then waited for a free connection. The response times include both.

    The mean is that of completed requests. The quantiles and the histogram also contain the
    requests that timed out, with the timeout as their time. Then `at_least_s` is the timeout, and
    quantiles of that value or more are lower bounds.
    """

    mean_s: float | None = None
    how: str | None = None
    p50_s: float | None = None
    p90_s: float | None = None
    p95_s: float | None = None
    p99_s: float | None = None
    p999_s: float | None = None
    max_s: float | None = None
    histogram: Mapping[str, int] | None = None
    at_least_s: float | None = None
    late_p99_s: float | None = None
    late_max_s: float | None = None
    waited_p99_s: float | None = None
    waited_max_s: float | None = None

    def is_bound(self, value: float | None) -> bool:
        """Whether a quantile is a lower bound, because requests timed out."""
        return value is not None and self.at_least_s is not None and value >= self.at_least_s


@dataclass(frozen=True)
class Figures:
    """What a load tool counted in its window. None means unknown; 0 is a counted zero.

    `completed` counts responses with a status below 400; `failed` counts the others by kind:
    refused, reset, timeout, tls, 4xx, 5xx, body (not the expected one), unfinished (no response
    when the time was up), other.
    `availability` is completed / finished requests, 0 to 1; unfinished requests are in neither.
    `rate` is in completed requests per second, and `rate_how` is the method of its computation.
    `rate_quantum` is the relative quantization error of the rate, because only whole requests are
    counted: no interval is narrower. `in_flight` is the mean number of concurrent requests.
    `offered` is the number of all counted requests: completed and failed, unfinished ones included.
    In an open loop these are the requests that were scheduled within the window, in a closed loop
    those that ended in it or were in flight at its end and failed. It is None if the tool does not
    report the unfinished ones.

    The window lasts from `window_began` to `window_ended`, in seconds of CLOCK_MONOTONIC.
    """

    elapsed_s: float | None = None
    offered: int | None = None
    completed: int | None = None
    failed: Mapping[str, int | None] = field(default_factory=dict)
    availability: float | None = None
    rate: float | None = None
    rate_how: str | None = None
    rate_quantum: float | None = None
    in_flight: float | None = None
    window_s: float | None = None
    window_began: float | None = None
    window_ended: float | None = None
    response: Response = Response()

    @property
    def failures(self) -> int | None:
        """The number of failed requests; requests unfinished at the end are not failures."""
        known = [count for kind, count in self.failed.items() if kind != "unfinished"]
        return sum(count or 0 for count in known) if known else None

    @property
    def failed_share(self) -> float:
        """The share of the finished requests that failed; 0 without any."""
        failed = self.failures or 0
        return failed / max(1, failed + (self.completed or 0))


def count_figures(
    users: int,
    elapsed_s: float | None,
    completed: int,
    finished: int,
    failed: Mapping[str, int | None],
    window_s: float | None = None,
    response: Response = Response(),
) -> Figures:
    """Return the figures of a tool that counts requests, `finished` of them with an outcome."""
    return Figures(
        elapsed_s=elapsed_s,
        completed=completed,
        failed=failed,
        availability=completed / finished if finished else None,
        rate=completed / elapsed_s if elapsed_s else None,
        rate_how="count / elapsed",
        rate_quantum=quantum_of_count(users, completed),
        window_s=window_s,
        response=response,
    )


@dataclass(frozen=True)
class LoadResult:
    """The values that a driver parsed from the output of its tool.

    `driver_busy` is the share of one core that the busiest load process used within the window,
    `driver_cpu_s` the CPU time in s that all its processes used there; None if it reports neither.
    `notes` report how the tool deviated from the load. `is_stalled`: it stopped, and `problem` is
    how, because hardly any request succeeded any more.
    """

    figures: Figures = Figures()
    driver_busy: float | None = None
    driver_cpu_s: float | None = None
    problem: str | None = None
    is_stalled: bool = False
    notes: tuple[Flag, ...] = ()


@dataclass(frozen=True)
class HostRun:
    """The part of one host in a load that several hosts sent.

    `host` is its name in `from=`; it had `users` users in `processes` processes. `is_here`: it is
    the machine that measures, under another name. `completed` and `failed` count the requests of
    the whole load. `late_s` is the delay of its start after the agreed time. `problem` is the
    reason why its requests are missing from the figures.

    `ahead_s` is the difference of its monotonic clock from that of the machine that measures,
    before the load, and `ahead_after_s` after it. Neither error is larger than `bound_s`.
    """

    host: str
    users: int
    processes: int = 1
    version: str | None = None
    is_here: bool = False
    ahead_s: float | None = None
    ahead_after_s: float | None = None
    bound_s: float | None = None
    late_s: float | None = None
    completed: int | None = None
    failed: int | None = None
    cpu_s: float | None = None
    problem: str | None = None


@dataclass(frozen=True)
class LoadRun:
    """A finished run of a load tool: the tool, its result, its raw output and its CPU time.

    `driver_cpu_s` is the CPU time in seconds of all its processes, within the window if the tool
    reports that. `driver_busy` is the CPU time as a share of the time that its threads can use;
    None for a short load. With `hung` the tool was killed and has no figures.

    If several `hosts` sent the load, `received` is the number of responses that the server should
    have counted, from the start of the load to its end. `unanswered` is the number of requests
    without a response; the server may have counted these, too. Both are None if the requests of a
    host are unknown.
    """

    driver: str
    version: str | None
    argv: tuple[str, ...]
    result: LoadResult
    driver_cpu_s: float | None
    output: str
    model: str = "closed"
    hung: bool = False
    driver_busy: float | None = None
    hosts: tuple[HostRun, ...] = ()
    received: int | None = None
    unanswered: int | None = None


# Whether a result is plausible
LARGEST = 1e15  # plausible count or time
NUMBERS = ("elapsed_s", "rate", "in_flight", "window_s")
TIMES = ("mean_s", "p50_s", "p90_s", "p95_s", "p99_s", "p999_s", "max_s")


def is_figure(value: object) -> bool:
    """Whether a JSON value is a plausible count or time."""
    return type(value) in (int, float) and 0 <= value < LARGEST  # type: ignore[operator]


def check_figures(result: LoadResult, name: str) -> LoadResult:
    """Return the result; if a figure is impossible, return a result that has only a problem."""
    wrong = _impossible(result.figures)
    if wrong is None or (result.problem and result.figures.completed is None):
        return result
    return LoadResult(problem=f"{name}'s result is implausible: {wrong}")


def _impossible(figures: Figures) -> str | None:
    """Name the first impossible figure, with its value."""
    if figures.completed is None:
        return "the number of completed requests is missing"
    if not isinstance(figures.failed, Mapping):
        return f"failed={figures.failed!r}"
    counts = {"completed": figures.completed, "offered": figures.offered, **figures.failed}
    numbers = {name: getattr(figures, name) for name in NUMBERS}
    times = {f"response.{name}": getattr(figures.response, name) for name in TIMES}
    shares = {"availability": figures.availability}
    kinds = [(counts, _is_count), (numbers | times, is_figure), (shares, _is_share)]
    for values, is_possible in kinds:
        for name, value in values.items():
            if value is not None and not is_possible(value):
                return f"{name}={value!r}"
    is_contradiction = figures.completed and figures.rate == 0
    return f"rate=0 with completed={figures.completed}" if is_contradiction else None


def _is_count(value: object) -> bool:
    return type(value) is int and is_figure(value)


def _is_share(value: object) -> bool:
    return is_figure(value) and value <= 1  # type: ignore[operator]
