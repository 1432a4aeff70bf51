"""Read bytes as RFC 9112 permits: the requests in them, and which must be refused.

Where a server may be tolerant, this reading is tolerant: it ends lines at a bare LF and joins
folded lines. After a request that has no unambiguous end, there are no further requests: a server
must close the connection.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VERSION = re.compile(rb"HTTP/1\.[0-9]")
_HOST = re.compile(rb"[A-Za-z0-9\-._~!$&'()*+;=%\[\]:]*")
_VALUE = re.compile(rb"[\x21-\x7e\x80-\xff \t]*")
_TARGET = re.compile(rb"/[\x21-\x7e]*")
_SPACES = b" \t\x0b\x0c\r"  # may separate the words of a request line (RFC 9112, 3)
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,400})([ \t]*;[^\r\n]*)?\r\n")
_DIGITS = re.compile(rb"[0-9]+")

MOST_HEAD = 32_000  # bytes of a head that every server accepts
MOST_FIELDS = 60
MOST_BODY = 1 << 20  # of the servers of this project


@dataclass(frozen=True)
class Request:
    """One request: a server sends one response to it, or closes the connection.

    `must_refuse`: it has no valid head, so that its status must be 400 or more. `is_valid`: nothing
    is wrong with it, so that there must be a response. A request that is neither may be served,
    refused, or dropped because its body is not complete. `method` is empty if it is unknown.
    """

    method: bytes
    must_refuse: bool
    is_valid: bool


def read(data: bytes) -> tuple[Request, ...]:
    """Return the requests in the bytes that a client sends on one connection."""
    found: list[Request] = []
    rest: bytes | None = data
    while rest:
        message = rest.lstrip(b"\r\n")
        blank = rest[: len(rest) - len(message)]
        if not message:
            if blank.count(b"\n") > 1 or blank.count(b"\r") > 1:  # only one must be ignored
                found.append(_malformed_request(b""))
            break
        request, rest = _read_first(message, is_strict=not blank)
        found.append(request)
    return tuple(found)


def _malformed_request(message: bytes) -> Request:
    """Return a request that must be refused, and is the last one."""
    method = _TOKEN.match(message)
    return Request(method[0] if method else b"", must_refuse=True, is_valid=False)


def _request_without_end(head: _Head) -> Request:
    """Return a request whose end is unclear: it may be served or refused, and is the last one."""
    return Request(head.method, must_refuse=not head.has_valid_host, is_valid=False)


def _read_first(message: bytes, is_strict: bool) -> tuple[Request, bytes | None]:
    """Return the first request and what follows it; None if the connection must be closed."""
    end = _HEAD_END.search(message)
    head = None if end is None else _Head.parse(message[: end.start()])
    if end is None or head is None:
        return _malformed_request(message), None
    rest = message[end.end() :]
    is_strict = is_strict and head.is_strict and end[0] == b"\r\n\r\n"
    codings, lengths = head.elements(b"transfer-encoding"), head.elements(b"content-length")
    if b"transfer-encoding" in head.fields:
        if codings[-1:] != [b"chunked"] or codings.count(b"chunked") > 1:
            return _malformed_request(message), None
        if b"content-length" in head.fields or head.version == b"HTTP/1.0":
            return _request_without_end(head), None
        is_strict = is_strict and head.fields[b"transfer-encoding"] == [codings[0]]
        body_end, is_plain = _chunked_end(rest)
        is_strict = is_strict and is_plain
    elif b"content-length" in head.fields:
        if len(set(lengths)) != 1 or _DIGITS.fullmatch(lengths[0]) is None:
            return _malformed_request(message), None
        digits = lengths[0].lstrip(b"0") or b"0"
        size = int(digits) if len(digits) < 20 else 10**20
        body_end = size if size <= len(rest) else None
        is_strict = is_strict and len(lengths) == 1 and size <= MOST_BODY
    else:
        body_end = 0
    if body_end is None:
        return _request_without_end(head), None
    # A wrong Host must be refused, but where the request ends is clear: others may follow.
    request = Request(head.method, not head.has_valid_host, is_strict and head.has_valid_host)
    return request, rest[body_end:] if head.keeps_alive else None


@dataclass
class _Head:
    """The parts of a head; `is_strict` if every server must accept it without tolerance."""

    method: bytes
    version: bytes
    fields: dict[bytes, list[bytes]]
    has_valid_host: bool
    is_strict: bool

    @classmethod
    def parse(cls, data: bytes) -> _Head | None:
        """Return the parts of a head without its last line end; None if it is malformed."""
        line, *lines = [each.removesuffix(b"\r") for each in data.split(b"\n")]
        words = re.split(rb"[" + _SPACES + rb"]+", line.strip(_SPACES))
        if len(words) != 3 or b"\0" in line:
            return None
        method, target, version = words
        fields, is_strict = _parse_fields(lines)
        if (
            fields is None
            or _TOKEN.fullmatch(method) is None
            or _VERSION.fullmatch(version) is None
        ):
            return None
        unfolded = data.replace(b"\r\n", b"")
        is_strict = (
            is_strict
            and b"\r" not in unfolded
            and b"\n" not in unfolded
            and line == b" ".join(words)
            and _TARGET.fullmatch(target) is not None
            and version in (b"HTTP/1.0", b"HTTP/1.1")
            and method != b"CONNECT"
            and not fields.keys() & {b"upgrade", b"expect"}
            and len(data) <= MOST_HEAD
            and len(lines) <= MOST_FIELDS
        )
        return cls(method, version, fields, _has_valid_host(fields, version), is_strict)

    def elements(self, name: bytes) -> list[bytes]:
        """Return the elements of a field's comma-separated values, in lower case."""
        values = b",".join(self.fields.get(name, [])).split(b",")
        return [each for value in values if (each := value.strip(b" \t").lower())]

    @property
    def keeps_alive(self) -> bool:
        """Whether another request may follow on the connection."""
        options = self.elements(b"connection")
        if b"close" in options:
            return False
        return b"keep-alive" in options or self.version != b"HTTP/1.0"


def _parse_fields(lines: list[bytes]) -> tuple[dict[bytes, list[bytes]] | None, bool]:
    """Return the values by lower-case name, and whether nothing had to be tolerated.

    The first is None if a line must be refused.
    """
    found: dict[bytes, list[bytes]] = {}
    last: list[bytes] | None = None
    is_strict = True
    for line in lines:
        if line[:1] in (b" ", b"\t"):
            is_strict = False
            if last is not None:  # a folded line; before the first field it is ignored
                last[-1] += b" " + line.strip(b" \t")
            continue
        name, colon, value = line.partition(b":")
        if not colon or _TOKEN.fullmatch(name) is None:
            return None, False
        is_strict = is_strict and _VALUE.fullmatch(value) is not None
        last = found.setdefault(name.lower(), [])
        last.append(value.strip(b" \t"))
    return found, is_strict


def _has_valid_host(fields: dict[bytes, list[bytes]], version: bytes) -> bool:
    hosts = fields.get(b"host", [])
    if len(hosts) > 1 or (not hosts and version != b"HTTP/1.0"):
        return False
    return all(_HOST.fullmatch(host) for host in hosts)


def _chunked_end(data: bytes) -> tuple[int | None, bool]:
    """Return where a chunked body ends, None without a valid end; and whether it is a plain one.

    A plain one has neither extensions nor trailer fields, which servers may refuse.
    """
    at, is_plain = 0, True
    while True:
        line = _CHUNK.match(data, at)
        if line is None:
            return None, False
        is_plain = is_plain and line[2] is None
        at, size = line.end(), int(line[1], 16)
        if size == 0:
            break
        if data[at + size : at + size + 2] != b"\r\n":
            return None, False
        at += size + 2
    if data[at : at + 2] == b"\r\n":
        return at + 2, is_plain
    end = _HEAD_END.search(data, at)
    if end is None or _parse_fields(data[at : end.start()].split(b"\n"))[0] is None:
        return None, False
    return end.end(), False
