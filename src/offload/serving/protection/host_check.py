"""Check the name in the Host header: only this machine's pages may use the server.

A page of another site can let its own name resolve to 127.0.0.1 (DNS rebinding). To the browser
this server is then a part of that site: the page could run the task and read /resources/. But the
browser sends the name of the site in the Host header, so a request with another name than those of
the loopback interface, or the address of `bind=`, is refused.

The status is 421, Misdirected Request: the server is not configured for the name in the request
(RFC 9110, 15.5.20). 400 is the status of a request whose Host header is missing or invalid (RFC
9112, 3.2). A request without the header is allowed: HTTP/1.0 does not require it, and a browser
always sends it.
"""

from __future__ import annotations

import functools
import os
import re

from offload.registry import addresses
from offload.registry.addresses import LONGEST_NAME

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
VARIABLE = "SERVER_ALLOWED_HOSTS"  # further names, separated by +

_HOST = re.compile(rf"({addresses.NAME_PATTERN})(:[0-9]*)?", re.IGNORECASE)


def parse(text: str) -> frozenset[str]:
    """Return the names in `a+b`, in lower case; raise UsageError."""
    return frozenset(addresses.parse_names("allowed_hosts", text, "shop.test+api.test"))


def configured() -> frozenset[str]:
    """Return the names that are allowed beside those of the loopback interface."""
    return parse(os.environ.get(VARIABLE, ""))


def is_allowed(host: str | None) -> bool:
    """Whether a server may respond to a request with this Host header.

    It is None, or empty under granian, if the request has none.
    """
    return not host or (len(host) <= LONGEST_NAME and _is_known(host))


@functools.lru_cache(64)
def _is_known(host: str) -> bool:
    found = _HOST.fullmatch(host)
    return found is not None and found[1].lower() in LOOPBACK | configured() | _own_address()


def _own_address() -> frozenset[str]:
    """Return the address on which the server listens: DNS rebinding needs a name instead."""
    address = addresses.configured_bind()
    return frozenset() if address == addresses.ALL else frozenset({address})
