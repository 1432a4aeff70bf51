"""Formats and structures: validation, serialisation, compression, dates and graphs."""

from __future__ import annotations

import functools
from datetime import date

import brotli
import msgpack
import networkx
import orjson
import yaml
import zstandard
from dateutil import parser, rrule
from pydantic import BaseModel, Field, TypeAdapter

STABLE = True
PACKAGES = (
    "brotli",
    "msgpack",
    "networkx",
    "orjson",
    "yaml",
    "zstandard",
    "dateutil",
    "pydantic",
)
ORDERS = 1_500
SETTINGS = 60
DATES = 250
NODES = 1_000
PAGE = 400_000  # bytes
QUALITY = 5
LEVEL = 9
DAY = date(2026, 3, 1)


class _Line(BaseModel):
    product: str = Field(max_length=40)
    cents: int = Field(ge=0)


class _Order(BaseModel):
    id: int
    customer: str
    day: date
    lines: list[_Line]


def orjson_export() -> bytes:
    """Write 1,500 orders as JSON by orjson."""
    return orjson.dumps(_orders())


def pydantic_orders() -> str:
    """Validate a request body of 1,500 orders, and sum them up."""
    orders = _adapter().validate_json(_body())
    return str(sum(line.cents for order in orders for line in order.lines))


def msgpack_cache() -> bytes:
    """Decode 1,500 orders with msgpack, as from a cache, sort them, and encode them again."""
    orders = msgpack.unpackb(_cached())
    return msgpack.packb(sorted(orders, key=lambda order: -order["lines"][0]["cents"]))


def yaml_settings() -> str:
    """Read 60 groups of settings with the pure-Python YAML parser."""
    return orjson.dumps(yaml.load(_settings(), yaml.SafeLoader)).decode()


def dateutil_calendar() -> str:
    """Parse 250 dates, and expand a recurrence rule to 100 Fridays."""
    parsed = [
        parser.parse(f"{1 + n % 28} March {2000 + n % 30} 10:{n % 60:02}") for n in range(DATES)
    ]
    rule = rrule.rrule(rrule.WEEKLY, count=100, byweekday=rrule.FR, dtstart=min(parsed))
    return "\n".join(day.isoformat() for day in [*parsed, *rule])


def networkx_routes() -> str:
    """Find the shortest paths from one node of 1,000, and the closeness centrality of another."""
    graph = _graph()
    lengths = networkx.single_source_dijkstra_path_length(graph, 0)
    ranks = networkx.closeness_centrality(graph, 7)
    return f"{sum(lengths.values())} {ranks:.6f}"


def brotli_page() -> bytes:
    """Compress a page of 400 KB by Brotli."""
    return brotli.compress(_page(), quality=QUALITY)


def zstandard_page() -> bytes:
    """Compress a page of 400 KB by Zstandard and decompress it."""
    packed = zstandard.ZstdCompressor(level=LEVEL).compress(_page())
    return zstandard.ZstdDecompressor().decompress(packed)[:1000] + packed


def orjson_import() -> str:
    """Read 1,500 orders from JSON by orjson and sum them up."""
    return str(sum(line["cents"] for order in orjson.loads(_body()) for line in order["lines"]))


def pydantic_export() -> bytes:
    """Create 1,500 orders without validation, and write them as JSON by pydantic."""
    orders = [
        _Order.model_construct(id=n, customer=f"customer {n % 37}", day=DAY, lines=[])
        for n in range(ORDERS)
    ]
    return _adapter().dump_json(orders)


@functools.cache
def _orders() -> list[dict[str, object]]:
    return [
        {
            "id": n,
            "customer": f"customer {n % 37}",
            "day": f"2026-03-{1 + n % 28:02}",
            "lines": [{"product": f"product {n % 11}", "cents": n * 37 % 10_000}],
        }
        for n in range(ORDERS)
    ]


@functools.cache
def _adapter() -> TypeAdapter[list[_Order]]:
    return TypeAdapter(list[_Order])


@functools.cache
def _body() -> bytes:
    return orjson.dumps(_orders())


@functools.cache
def _cached() -> bytes:
    return bytes(msgpack.packb(_orders()))


@functools.cache
def _settings() -> str:
    groups = [
        {"name": f"group {n}", "ports": [n, n + 1], "on": bool(n % 2)} for n in range(SETTINGS)
    ]
    return yaml.safe_dump({"version": 3, "groups": groups})


@functools.cache
def _graph() -> networkx.Graph:
    graph = networkx.Graph()
    for n in range(NODES):
        for step in (1, 7, 31):
            graph.add_edge(n, (n + step) % NODES, weight=n * step % 13 + 1)
    return graph


@functools.cache
def _page() -> bytes:
    out = bytearray()
    for n in range(PAGE):
        out += f"<tr><td>{n}</td><td>customer {n * n % 9973}</td></tr>\n".encode()
        if len(out) >= PAGE:
            break
    return bytes(out[:PAGE])
