"""siege: the load tool of the published benchmark."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from offload.errors import Flag, UsageError
from offload.loads import (
    CLOSED_LOOP_ONLY,
    Command,
    Load,
    LoadResult,
    Message,
    Response,
    content_type,
    count_figures,
    has_secret,
    is_figure,
)

TOOL = "siege"
INSTALL = "sudo apt install siege"
MAX_USERS = 1000
LACKS = {**CLOSED_LOOP_ONLY, "think": "even think time", "processes": "processes"}
METHODS = ("GET", "POST")
LONGEST_HEADERS = 500  # characters of all headers in siege's configuration
MAX_FAILURES = 256  # after which siege stops; with many users FAILURES_PER_USER for each user
FAILURES_PER_USER = 4
CLOCK = 0.01  # s: siege's times are multiples of this
COARSE = 0.05  # maximum clock error as a share of the mean; else Little's law is used

CAPPED = re.compile(r"The number of users is capped at (\d+)")

KEYS = (
    "transactions",
    "failed_transactions",
    "successful_transactions",
    "elapsed_time",
    "response_time",
    "longest_transaction",
)
KINDS = {
    "refused": re.compile("Connection refused"),
    "reset": re.compile("Connection reset"),
    "timeout": re.compile("timed out|timeout"),
}

# It sets every relevant value, so that the user's own has no effect.
CONFIG = """\
verbose = false
quiet = false
color = off
json_output = true
show-logfile = false
logging = false
parser = false
follow-location = false
accept-encoding =
limit = {limit}
failures = {failures}
protocol = HTTP/1.1
connection = {connection}
timeout = {timeout}
benchmark = true
"""


def command(load: Load) -> Command:
    """Set a separate HOME, because siege writes to it, and a complete configuration.

    `-r` counts repetitions per user, so `requests` are rounded up to a multiple of users.
    """
    if load.requests is not None:
        amount = ("-r", str(math.ceil(load.requests / load.users)))
    else:
        amount = ("-t", f"{math.ceil(load.seconds or 0)}S")
    check_load(load)
    argv: tuple[str, ...] = (
        "siege",
        "-R",
        "{folder}/siege.conf",
        "-b",
        "-c",
        str(load.users),
        *amount,
    )
    files = {".siege/cookies.txt": ""}
    url = load.url
    shown, hidden = _lines(load.message)
    argv = (*argv, *(word for line in shown for word in ("--header", line)))
    kind = load.message.content_type
    if load.message.method == "POST":
        argv = (*argv, "--content-type", kind or content_type(""))
        files["body"] = load.message.body or ""
        url = f"{load.url} POST <{{folder}}/body"
    elif kind is not None:
        argv = (*argv, "--header", f"Content-Type: {kind}")
    conf = _config(load, MAX_USERS, _max_failures(load), hidden)
    if not has_secret(url):
        argv = (*argv, url)
    else:  # a secret, too; siege replaces HOME in its configuration
        conf += f"url = {url.replace('{folder}', '${HOME}')}\n"
    files["siege.conf"] = conf
    return Command(argv, environment={"HOME": "{folder}"}, files=files)


def _config(load: Load, users: int, failures: int, headers: Sequence[str]) -> str:
    """Return siege's configuration: at most `users` users, abort after `failures` failures.

    Headers are here because other users can read arguments.
    """
    lines = "".join(f"header = {line}\n" for line in headers)
    return lines + CONFIG.format(
        limit=users,
        failures=failures,
        connection="keep-alive" if load.keep_alive else "close",
        timeout=math.ceil(load.timeout),
    )


def check_load(load: Load) -> None:
    """Raise UsageError for secrets that siege's configuration cannot have."""
    _, hidden = _lines(load.message)
    if "$" in load.url and has_secret(load.url):
        raise UsageError("siege cannot read a URL with $ from a file", "use driver=builtin")
    for line in hidden:
        if "#" in line or "$" in line:
            name = line.partition(":")[0]
            what = f"siege cannot read header {name} from a file, because its value has # or $"
            raise UsageError(what, "use driver=builtin")
    if sum(len(line) + 2 for line in hidden) > LONGEST_HEADERS:
        what = f"siege reads at most {LONGEST_HEADERS} characters of headers from a file"
        raise UsageError(what, "use driver=builtin")


def _lines(message: Message) -> tuple[list[str], list[str]]:
    """Return the headers that records may show, and the others, which may be secrets."""
    lines = zip(message.lines, message.masked().lines, strict=True)
    shown: list[str] = []
    hidden: list[str] = []
    for line, masked in lines:
        (shown if line == masked else hidden).append(line)
    return shown, hidden


def parse(stdout: str, stderr: str, load: Load) -> LoadResult:
    """Parse siege's JSON, which follows any other output.

    siege counts a 404 as available and a 5xx or a lost connection as failed. At the end it drops
    requests without a response, and it does not detect a truncated body. It reports the kind of a
    failure only on stderr. If its limit of users is lower than theirs, it runs fewer of them.
    """
    try:
        report = json.loads(stdout[stdout.index("{") : stdout.rindex("}") + 1])
    except (ValueError, RecursionError):
        return LoadResult(problem="siege printed no result: see its output")
    if missing := [key for key in KEYS if not is_figure(report.get(key))]:
        return LoadResult(problem=f"siege's result has no number for {', '.join(missing)}")
    transactions, failures = report["transactions"], report["failed_transactions"]
    completed = min(report["successful_transactions"], transactions)
    elapsed = report["elapsed_time"]
    failed = _failures(stderr, failures, transactions - completed)
    aborted = failures >= _max_failures(load)
    problem = f"siege stopped after {failures} failures ({_worst(failed)})" if aborted else None
    if capped := CAPPED.search(stderr + stdout):
        problem = f"siege ran {capped[1]} instead of {load.users} users: its limit is lower"
    return LoadResult(
        count_figures(
            load.users,
            elapsed,
            completed,
            transactions + failures,
            failed,
            response=_response(report, load),
        ),
        problem=problem,
        notes=_notes(load),
    )


def _max_failures(load: Load) -> int:
    return max(MAX_FAILURES, FAILURES_PER_USER * load.users)


def _notes(load: Load) -> tuple[Flag, ...]:
    """Return a flag for a rounded amount: `-t` is in whole seconds, `-r` in requests per user."""
    if load.requests is None:
        whole = math.ceil(load.seconds or 0)
        is_whole = whole == (load.seconds or 0)
        return (
            ()
            if is_whole
            else (Flag("rounded", f"time={load.seconds:g} became {whole} s for siege"),)
        )
    requests = math.ceil(load.requests / load.users) * load.users
    if requests == load.requests:
        return ()
    return (Flag("rounded", f"requests={load.requests} became {requests}, the same for each user"),)


def _failures(stderr: str, failures: int, not_found: int) -> dict[str, int | None]:
    # A request that timed out prints two lines; the first one is not counted.
    lines = [line for line in stderr.splitlines() if "select and discovered" not in line]
    known: dict[str, int | None] = {
        kind: sum(bool(pattern.search(line)) for line in lines) for kind, pattern in KINDS.items()
    }
    other = max(0, failures - sum(count or 0 for count in known.values()))
    return {
        **known,
        "4xx": not_found,
        "5xx": None if other else 0,  # siege does not distinguish a 5xx from an early close
        "other": other,
        "unfinished": None,
    }


def _response(report: Mapping[str, Any], load: Load) -> Response:
    """Return the response times; they are unknown after a 4xx, because siege includes its time."""
    transactions, failures = report["transactions"], report["failed_transactions"]
    if not transactions or report["successful_transactions"] < transactions:
        return Response()
    mean, how = _mean(report["response_time"], transactions, failures, report["elapsed_time"], load)
    return Response(mean, how, max_s=report["longest_transaction"])


def _mean(
    reported: float, completed: int, failures: int, elapsed: float, load: Load
) -> tuple[float | None, str | None]:
    """Return siege's mean, or users x elapsed / completed if its clock is too coarse."""
    if not completed or not elapsed:
        return None, None
    if COARSE * reported >= CLOCK:
        return reported, "siege's clock of 10 ms"
    if failures:  # a failed request also takes a user's time
        return None, None
    return load.users * elapsed / completed, "Little's law"


def _worst(failed: dict[str, int | None]) -> str:
    kind, count = max(failed.items(), key=lambda item: item[1] or 0)
    names = {"other": "a 5xx or an early close"}
    return f"{count} {names.get(kind, kind)}"
