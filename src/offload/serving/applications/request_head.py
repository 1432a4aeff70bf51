"""Read the head of a request as RFC 9112 defines it, and refuse everything else.

http.server accepts more: HTTP/0.9, any white space between words and around names, an end of the
stream instead of the empty line, further line ends of Unicode, bodies of unknown length. Another
program in front of the server may read such a request differently.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from io import BufferedIOBase

from offload.serving.protection import limits

LONGEST = 65_536  # bytes of a head, as for the servers that are based on Tornado
EMPTY_LINES = (b"\r\n", b"\n")

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST_LINE = re.compile(rb"(%b) ([\x21-\x7e\x80-\xff]+) HTTP/([0-9])\.([0-9])\r?\n" % _TOKEN)
_FIELD = re.compile(rb"(%b):([\t \x21-\x7e\x80-\xff]*)\r?\n" % _TOKEN)
_HOST = re.compile(r"[A-Za-z0-9\-._~!$&'()*+;=%\[\]:]*")
_LENGTH = re.compile(r"[0-9]{1,19}")


class BadHead(Exception):
    """A head that is refused with a status and a reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class Head:
    """A valid head; `fields` has the values by name in lower case, and `length` is the body's."""

    method: str
    target: str
    version: str
    fields: dict[str, str]
    length: int


def read(first: bytes, stream: BufferedIOBase) -> Head:
    """Return the head whose first line is `first`; raise BadHead, or OSError of the stream."""
    found = _REQUEST_LINE.fullmatch(first)
    if found is None:
        raise BadHead(400, "Bad request line")
    method, target, major, minor = (part.decode("latin-1") for part in found.groups())
    if major != "1":
        raise BadHead(505, "Only versions 1.0 and 1.1")
    fields = _read_fields(stream, LONGEST - len(first))
    if "host" not in fields and minor != "0":
        raise BadHead(400, "Host is missing")
    if _HOST.fullmatch(fields.get("host", "")) is None:
        raise BadHead(400, "Bad Host")
    return Head(method, target, f"HTTP/1.{minor}", fields, _length(fields))


def _read_fields(stream: BufferedIOBase, most: int) -> dict[str, str]:
    """Return the values by name; join those of a repeated name. Read at most `most` bytes."""
    fields: dict[str, str] = {}
    for _ in range(limits.HEADERS + 1):
        line = stream.readline(max(0, most) + 1)
        most -= len(line)
        if most < 0:
            raise BadHead(431, "The header is too long")
        if line in EMPTY_LINES:
            return fields
        found = _FIELD.fullmatch(line)
        if found is None:
            raise BadHead(400, "Bad header line")
        name, value = (part.strip(b" \t").decode("latin-1") for part in found.groups())
        name = name.lower()
        fields[name] = f"{fields[name]},{value}" if name in fields else value
    raise BadHead(431, "Too many header lines")


def _length(fields: dict[str, str]) -> int:
    """Return the length of the body; raise BadHead for a repeated or invalid one."""
    value = fields.get("content-length")
    if "transfer-encoding" in fields:
        if value is not None:
            raise BadHead(400, "Content-Length and Transfer-Encoding")
        raise BadHead(501, "Transfer-Encoding is not supported")
    if value is None:
        return 0
    if _LENGTH.fullmatch(value) is None:
        raise BadHead(400, "Bad Content-Length")
    return int(value)
