"""Check the name in the Host header: only this machine's pages may use the server.

A page of another site can let its own name resolve to 127.0.0.1 (DNS rebinding). To the browser
this server is then a part of that site: the page could run the task and read /resources/. But the
browser sends the name of the site in the Host header, so a request with another name than those of
the loopback interface is refused.

The status is 421, Misdirected Request: the server is not configured for the name in the request
(RFC 9110, 15.5.20). 400 is the status of a request whose Host header is missing or invalid (RFC
9112, 3.2). A request without the header is allowed: HTTP/1.0 does not require it, and a browser
always sends it.
"""

from __future__ import annotations

import functools
import os
import re

from offload.errors import UsageError

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
VARIABLE = "SERVER_ALLOWED_HOSTS"  # further names, separated by +
LONGEST = 300  # characters of a name with its port; DNS allows 253 in a name

_NAME = re.compile(r"\[[0-9a-f:.]+\]|[a-z0-9_.-]+", re.IGNORECASE)
_HOST = re.compile(rf"({_NAME.pattern})(:[0-9]*)?", re.IGNORECASE)


def parse(text: str) -> frozenset[str]:
    """Return the names in `a+b`, in lower case; raise UsageError."""
    names = text.lower().split("+") if text else []
    for name in names:
        if len(name) > LONGEST or _NAME.fullmatch(name) is None:
            fix = "write names without ports, such as allowed_hosts=shop.test+api.test"
            raise UsageError(f"allowed_hosts={text[:100]!r} is not a list of host names", fix)
    return frozenset(names)


def configured() -> frozenset[str]:
    """Return the names that are allowed beside those of the loopback interface."""
    return parse(os.environ.get(VARIABLE, ""))


def is_allowed(host: str | None) -> bool:
    """Whether a server may respond to a request with this Host header.

    It is None, or empty under granian, if the request has none.
    """
    return not host or (len(host) <= LONGEST and _is_known(host))


@functools.lru_cache(64)
def _is_known(host: str) -> bool:
    found = _HOST.fullmatch(host)
    return found is not None and found[1].lower() in LOOPBACK | configured()
