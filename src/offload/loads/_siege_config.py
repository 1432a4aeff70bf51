"""siege's configuration. It sets every relevant value, so that the user's own has no effect."""

from __future__ import annotations

import math
from collections.abc import Sequence

from offload.loads import Load

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


def config(load: Load, users: int, failures: int, headers: Sequence[str]) -> str:
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
