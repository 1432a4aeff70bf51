"""The configuration of siege: every setting that matters, so that none is a user's own."""

from __future__ import annotations

import math

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


def config(load: Load, users: int, failures: int) -> str:
    """Give the text of siege's file: at most so many users, and the end after so many failures."""
    return CONFIG.format(
        limit=users,
        failures=failures,
        connection="keep-alive" if load.keep_alive else "close",
        timeout=math.ceil(load.timeout),
    )
