"""Count the responses in a stream, and find those that are not complete."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [^\r\n]*)?")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([^\r\n\0]*)")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[^\r\n]*)?\r\n")

INCOMPLETE = "an incomplete response"
SHOWN = 40  # bytes of what is no response


@dataclass(frozen=True)
class Responses:
    """The statuses of the complete responses, without interim ones, and what is wrong after them.

    `problem` is empty if the stream ends with a complete response.
    """

    statuses: tuple[int, ...]
    problem: str


def parse(stream: bytes, methods: Sequence[bytes], has_ended: bool) -> Responses:
    """Return the responses to requests with these methods.

    A response without a length lasts until the end of the stream. A response to HEAD has no body;
    if HEAD was refused before its method was known, it may have one.
    """
    statuses: list[int] = []
    at = 0
    while at < len(stream):
        method = methods[len(statuses)] if len(statuses) < len(methods) else b""
        found = _parse_one(stream, at, method, has_ended)
        if isinstance(found, str):
            return Responses(tuple(statuses), found)
        status, at = found
        if status >= 200 or status == 101:
            statuses.append(status)
        if status == 101:  # another protocol follows
            break
    return Responses(tuple(statuses), "")


def _parse_one(stream: bytes, at: int, method: bytes, has_ended: bool) -> tuple[int, int] | str:
    """Return the status and the end of the response at a position, or what is wrong with it."""
    head_end = stream.find(b"\r\n\r\n", at)
    if head_end < 0:
        is_head = stream[at : at + 5] == b"HTTP/"[: len(stream) - at]
        return INCOMPLETE if is_head else _junk(stream, at)
    line, *lines = stream[at:head_end].split(b"\r\n")
    status_line = _STATUS_LINE.fullmatch(line)
    fields = [_FIELD.fullmatch(each) for each in lines]
    if status_line is None or None in fields:
        return _junk(stream, at)
    status, at = int(status_line[1]), head_end + 4
    values: dict[bytes, set[bytes]] = {}
    for field in filter(None, fields):
        values.setdefault(field[1].lower(), set()).add(field[2].strip(b" \t").lower())
    if status < 200 or status in (204, 304):
        return status, at
    end = _body_end(stream, at, values, has_ended)
    if method == b"HEAD" and (status < 400 or at == len(stream) or stream.startswith(b"HTTP/", at)):
        return status, at
    if isinstance(end, str):
        return end
    return status, end


def _body_end(
    stream: bytes, at: int, values: dict[bytes, set[bytes]], has_ended: bool
) -> int | str:
    codings, lengths = values.get(b"transfer-encoding"), values.get(b"content-length")
    if codings is not None and lengths is not None:
        return "a response with two lengths"
    if codings is not None:
        return _chunked_end(stream, at) if codings == {b"chunked"} else "an unknown coding"
    if lengths is not None:
        [length, *others] = lengths
        if others or not length.isdigit():
            return "a response with an invalid length"
        end = at + int(length)
        return end if end <= len(stream) else INCOMPLETE
    return len(stream) if has_ended else INCOMPLETE


def _chunked_end(stream: bytes, at: int) -> int | str:
    size = -1
    while size:
        line = _CHUNK.match(stream, at)
        if line is None:
            return INCOMPLETE
        size = int(line[1], 16)
        at = line.end() + size
        if size:
            if stream[at : at + 2] != b"\r\n":
                return INCOMPLETE
            at += 2
    return at + 2 if stream[at : at + 2] == b"\r\n" else INCOMPLETE


def _junk(stream: bytes, at: int) -> str:
    return f"no HTTP response: {stream[at : at + SHOWN]!r}"
