"""Mutants of valid requests: the same seed and number always produce the same bytes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from offload.bench.faults.requests import valid

MOST_OPERATIONS = 4

BYTES = (b"\0", b"\r", b"\n", b"\t", b" ", b":", b"\x0b", b"\x1b", b"\x7f", b"\x85", b"\xff", b";")
NUMBERS = (
    b"0", b"1", b"4", b"6", b"007", b"-1", b"+5", b"5 5", b"5,5", b"5, 6", b"0x5", b"5_0", b"5.0",
    b"1e3", b"", b" ", b"\xb2", b"1048577", b"2147483648", b"18446744073709551621",
    b"9" * 400, b"9" * 5000, b"five",
)  # fmt: skip
SIZES = (
    b"0", b"00", b"0005", b"-5", b"+5", b"0x5", b"5_0", b" 5", b"5 ", b"5;", b"5;a=b", b'5;a="',
    b"", b"g", b"fffffffffffffff", b"fffffffffffffffff", b"5\n", b"5\r", b"0" * 100 + b"5",
)  # fmt: skip
FIELDS = (
    b"Content-Length: 5", b"Content-Length: 0", b"Content-Length: 44", b"Content-Length : 5",
    b"Content-Length:5\x0b", b"Content_Length: 5", b"Content-Length: 5\rX: y",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity", b"Transfer-Encoding: gzip",
    b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding : chunked", b"Transfer-Encoding: xchunked", b"Transfer_Encoding: chunked",
    b"Transfer-Encoding:\x0bchunked", b"Transfer-Encoding:", b"X: y\nTransfer-Encoding: chunked",
    b"Host: 127.0.0.1", b"Host: shop.test", b"Host:", b"Host: 127.0.0.1, shop.test",
    b"Connection: close", b"Connection: keep-alive", b"Connection: Content-Length",
    b"Expect: 100-continue", b"Expect: 200-ok", b"Content-Encoding: gzip", b"no colon",
    b": no name", b"X\0Y: nul", b"X: nul\0", b"X: \x1b[31m", b"X: \x85Content-Length: 5",
    b"Content-Type: multipart/form-data", b"Content-Type: multipart/form-data; boundary=",
    b"Content-Type: application/x-www-form-urlencoded; charset=\xff",
    b"Range: bytes=9-1", b"If-Modified-Since: \xff", b"Cookie: \xff=;=;;", b"X-Forwarded-For: \xff",
)  # fmt: skip
VERSIONS = (
    b"HTTP/0.9", b"HTTP/1.0", b"HTTP/1.2", b"HTTP/1.10", b"HTTP/01.1", b"HTTP/2.0", b"HTTP/3",
    b"HTTP/9.9", b"HTTP/1", b"HTTP/1.", b"HTTP/.1", b"HTTP/-1.1", b"http/1.1", b"HTTP 1.1",
    b"HTTP/1.1 x", b"HTTP/1.\xb2", b"FTP/1.1", b"",
)  # fmt: skip
METHODS = (
    b"HEAD", b"POST", b"DELETE", b"CONNECT", b"TRACE", b"PRI", b"get", b"GET:", b"G\0T", b"G(T",
    b"-GET", b"", b"GETTINGS", b"M" * 300, b"__init__", b"\xff",
)  # fmt: skip
TARGETS = (
    b"*", b"//", b"/..", b"/../../etc/passwd", b"/%00", b"/%", b"/%zz", b"/\xff", b"/\0", b"/a b",
    b"?", b"#", b"resources/", b"127.0.0.1:80", b"http://127.0.0.1/", b"http://shop.test/",
    b"http://[::1/", b"http://\xff/", b"s://]x/:", b"", b"/" + b"a" * 9000,
    b"/resources/?from=nan&to=inf", b"/resources/?from=1e999&to=1e999", b"/resources/?from=-1&to=1",
    b"/?" + b"&".join(b"a" for _ in range(1200)),
)  # fmt: skip

Operation = Callable[[Random, bytes], bytes]


@dataclass(frozen=True)
class Mutant:
    """A request that was changed by operations; `number` and the seed identify it."""

    number: int
    operations: tuple[str, ...]
    data: bytes


def mutants(seed: int, count: int) -> Iterator[Mutant]:
    """Yield the first `count` mutants of a seed."""
    return (mutant(seed, number) for number in range(count))


def mutant(seed: int, number: int) -> Mutant:
    """Return one mutant of a seed."""
    rng = random.Random(f"{seed}/{number}")  # noqa: S311 - repeatable
    data = rng.choice(valid.REQUESTS)
    names = []
    for _ in range(1 + rng.randrange(MOST_OPERATIONS)):
        name = rng.choice(NAMES)
        names.append(name)
        data = OPERATIONS[name](rng, data)
    return Mutant(number, tuple(names), data)


def _cut(rng: Random, data: bytes, most: int = 12) -> tuple[int, int]:
    """Return the ends of a short piece."""
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.randrange(most + 1))


def _replace(data: bytes, found: re.Match[bytes] | None, new: bytes, group: int = 0) -> bytes:
    if found is None:
        return data
    return data[: found.start(group)] + new + data[found.end(group) :]


def _any_match(rng: Random, pattern: bytes, data: bytes) -> re.Match[bytes] | None:
    found = [*re.finditer(pattern, data)]
    return rng.choice(found) if found else None


def _flip_bits(rng: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(1 + rng.randrange(3)):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _insert_bytes(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(BYTES) * (1 + rng.randrange(2)) + data[at:]


def _delete(rng: Random, data: bytes) -> bytes:
    start, end = _cut(rng, data)
    return data[:start] + data[end:]


def _repeat(rng: Random, data: bytes) -> bytes:
    start, end = _cut(rng, data, 40)
    return data[:end] + data[start:end] * (1 + rng.randrange(3)) + data[end:]


def _truncate(rng: Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _move_line(rng: Random, data: bytes) -> bytes:
    lines = data.split(b"\r\n")
    line = lines.pop(rng.randrange(len(lines)))
    lines.insert(rng.randrange(len(lines) + 1), line)
    return b"\r\n".join(lines)


def _repeat_line(rng: Random, data: bytes) -> bytes:
    lines = data.split(b"\r\n")
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
    return b"\r\n".join(lines)


def _change_case(rng: Random, data: bytes) -> bytes:
    start, end = _cut(rng, data, 30)
    return data[:start] + data[start:end].swapcase() + data[end:]


def _bare_lf(rng: Random, data: bytes) -> bytes:
    return _replace(data, _any_match(rng, rb"\r\n", data), b"\n")


def _bare_cr(rng: Random, data: bytes) -> bytes:
    return _replace(data, _any_match(rng, rb"\r\n", data), b"\r")


def _only_lf(_: Random, data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n")


def _fold(rng: Random, data: bytes) -> bytes:
    fold = b"\r\n" + rng.choice((b" ", b"\t"))
    return _replace(data, _any_match(rng, rb"\r\n|[:;,] ?", data), fold)


def _space_before_colon(rng: Random, data: bytes) -> bytes:
    colon = rng.choice((b" :", b"\t:", b"\x0b:", b"::"))
    return _replace(data, _any_match(rng, rb":", data), colon)


def _empty_line(rng: Random, data: bytes) -> bytes:
    return _replace(data, _any_match(rng, rb"\r\n|^", data), b"\r\n\r\n")


def _add_field(rng: Random, data: bytes) -> bytes:
    return _replace(data, _any_match(rng, rb"\r\n", data), b"\r\n" + rng.choice(FIELDS) + b"\r\n")


def _add_many_fields(rng: Random, data: bytes) -> bytes:
    fields = b"".join(b"X-%d: y\r\n" % number for number in range(rng.choice((90, 150, 2000))))
    return _replace(data, re.search(rb"\r\n", data), b"\r\n" + fields)


def _add_long_field(rng: Random, data: bytes) -> bytes:
    field = b"X: " + b"y" * rng.choice((8190, 33_000, 66_000, 100_000))
    return _replace(data, re.search(rb"\r\n", data), b"\r\n" + field + b"\r\n")


def _change_length(rng: Random, data: bytes) -> bytes:
    pattern = rb"Content-Length: ([^\r\n]*)"
    return _replace(data, _any_match(rng, pattern, data), rng.choice(NUMBERS), 1)


def _change_size(rng: Random, data: bytes) -> bytes:
    return _replace(data, _any_match(rng, rb"\r\n([0-9a-f]+)\r\n", data), rng.choice(SIZES), 1)


def _end_chunk(rng: Random, data: bytes) -> bytes:
    end = rng.choice(
        (b"", b"\n", b"\r", b"xx", b"\r\n\r\n", b"\r\nX: y\r\n\r\n", b"\r\nHost: a\r\n\r\n")
    )
    return _replace(data, _any_match(rng, rb"\r\n(?:\r\n)?$", data), end)


def _change_version(rng: Random, data: bytes) -> bytes:
    return _replace(data, _any_match(rng, rb"HTTP/1\.[01]", data), rng.choice(VERSIONS))


def _change_method(rng: Random, data: bytes) -> bytes:
    return _replace(data, re.match(rb"[A-Z]+", data), rng.choice(METHODS))


def _change_target(rng: Random, data: bytes) -> bytes:
    return _replace(data, _any_match(rng, rb"(?<= )[/*]\S*(?= HTTP)", data), rng.choice(TARGETS))


def _drop_version(rng: Random, data: bytes) -> bytes:
    return _replace(data, _any_match(rng, rb" HTTP/1\.[01]", data), b"")


def _pipeline(rng: Random, data: bytes) -> bytes:
    return data + rng.choice(valid.REQUESTS)


def _nest(rng: Random, data: bytes) -> bytes:
    """Put the request into the body of another one."""
    outer = valid.with_length(b"GET", data) if rng.randrange(2) else valid.chunked(b"POST", data)
    return outer + rng.choice((b"", valid.LAST))


def _garbage(rng: Random, data: bytes) -> bytes:
    noise = rng.randbytes(1 + rng.randrange(64))
    return noise + data if rng.randrange(2) else data + noise


OPERATIONS: dict[str, Operation] = {
    "flip bits": _flip_bits,
    "insert bytes": _insert_bytes,
    "delete bytes": _delete,
    "repeat bytes": _repeat,
    "truncate": _truncate,
    "move a line": _move_line,
    "repeat a line": _repeat_line,
    "change case": _change_case,
    "bare LF": _bare_lf,
    "bare CR": _bare_cr,
    "only LF": _only_lf,
    "folded line": _fold,
    "space before colon": _space_before_colon,
    "empty line": _empty_line,
    "add a field": _add_field,
    "many fields": _add_many_fields,
    "long field": _add_long_field,
    "change the length": _change_length,
    "change a chunk size": _change_size,
    "change the last chunk": _end_chunk,
    "change the version": _change_version,
    "no version": _drop_version,
    "change the method": _change_method,
    "change the target": _change_target,
    "pipeline": _pipeline,
    "nest": _nest,
    "garbage": _garbage,
}
NAMES = tuple(OPERATIONS)
