"""Data with the standard library: JSON, CSV, pickle, mail, compression, diffs, decimal sums."""

from __future__ import annotations

import bz2
import csv
import difflib
import email
import email.policy
import functools
import gzip
import io
import json
import pickle
import zlib
from decimal import ROUND_HALF_UP, Decimal

STABLE = True
ORDERS = 2_000
CSV_ROWS = 6_000
ARCHIVE = 1_500_000  # bytes
LEVEL = 6
VERSIONS = 800  # lines in each compared text
LINES = 4_000
BACKUP = 400_000  # bytes
ATTACHMENTS = 60
CENT = Decimal("0.01")


def json_export() -> str:
    """Write 2,000 orders as JSON."""
    return json.dumps(_orders(), sort_keys=True)


def json_import() -> str:
    """Read 2,000 orders from JSON and sum them up."""
    return str(sum(order["cents"] for order in json.loads(_uploaded())))


def csv_totals() -> str:
    """Read 6,000 rows of CSV and sum them up by product."""
    totals: dict[str, int] = {}
    for row in csv.DictReader(io.StringIO(_table())):
        totals[row["product"]] = totals.get(row["product"], 0) + int(row["cents"])
    return json.dumps(totals, sort_keys=True)


def zlib_archive() -> bytes:
    """Compress 1.5 MB of text; zlib releases the GIL."""
    return zlib.compress(_text(), LEVEL)


def text_changes() -> str:
    """Compare two versions of a text of 800 lines."""
    old = [f"line {n}: {n * n % 97} words" for n in range(VERSIONS)]
    new = [line if n % 9 else f"{line}, changed" for n, line in enumerate(old) if n % 13]
    return "\n".join(difflib.unified_diff(old, new, lineterm=""))


def invoice_total() -> str:
    """Add up 4,000 invoice lines with tax, in decimal arithmetic."""
    total = Decimal(0)
    for number in range(LINES):
        price = Decimal(number % 997) / 100
        total += (price * (number % 7) * Decimal("1.19")).quantize(CENT, ROUND_HALF_UP)
    return str(total)


def sorted_orders() -> str:
    """Sort 2,000 orders by customer and amount, and write the first 100 as JSON."""
    found = sorted(_orders(), key=lambda order: (order["customer"], order["cents"], order["id"]))
    return json.dumps(found[:100])


def email_message() -> str:
    """Parse an email of 60 attachments, in pure Python, and list their names."""
    message = email.message_from_bytes(_mail(), policy=email.policy.default)
    return "\n".join(str(part.get_filename()) for part in message.walk())


def gzip_import() -> str:
    """Decompress 1.5 MB of text without the GIL, and count its words."""
    return str(len(gzip.decompress(_packed()).split()))


def csv_export() -> str:
    """Write 2,000 orders as CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, ["id", "customer", "cents", "lines"])
    writer.writeheader()
    writer.writerows(_orders())
    return out.getvalue()


def pickled_session() -> str:
    """Pickle and unpickle 2,000 orders, as a cache does, and sum them up."""
    restored = pickle.loads(pickle.dumps(_orders()))  # noqa: S301 - our own bytes
    return str(sum(order["cents"] for order in restored))


def bz2_backup() -> bytes:
    """Compress 400 kB of text with bzip2, which releases the GIL."""
    return bz2.compress(_text()[:BACKUP])


@functools.cache
def _orders() -> list[dict[str, object]]:
    return [
        {"id": n, "customer": f"customer {n % 37}", "cents": n * 37 % 10_000, "lines": [n, n + 1]}
        for n in range(ORDERS)
    ]


@functools.cache
def _uploaded() -> str:
    return json.dumps(_orders())


@functools.cache
def _table() -> str:
    rows = (f"{n},product {n % 23},{n * 37 % 10_000}" for n in range(CSV_ROWS))
    return "\n".join(["id,product,cents", *rows])


@functools.cache
def _mail() -> bytes:
    head = 'Subject: orders\r\nContent-Type: multipart/mixed; boundary="part"\r\n\r\n'
    parts = (
        "--part\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f'Content-Disposition: attachment; filename="order-{n}.txt"\r\n\r\n'
        f"{n} order of customer {n * n % 97}\r\n"
        for n in range(ATTACHMENTS)
    )
    return "".join([head, *parts, "--part--\r\n"]).encode()


@functools.cache
def _packed() -> bytes:
    return gzip.compress(_text(), LEVEL, mtime=0)


@functools.cache
def _text() -> bytes:
    lines = (
        f"{n} order of customer {n * n % 9973}: {n * 37 % 10_007} cents\n" for n in range(10**6)
    )
    out = bytearray()
    for line in lines:
        out += line.encode()
        if len(out) >= ARCHIVE:
            break
    return bytes(out[:ARCHIVE])
