"""Database: sqlite3 in a file and in memory."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from offload.registry import places

STABLE = True
FILE = places.cache() / "corpus" / "shop-1.sqlite3"
ORDERS = 100_000
CUSTOMERS = 500
IN_MEMORY = 4_000
SCAN = "select cents, note from orders limit 10000"
SEARCH = """
select id, cents, note from orders where note like '%99%' order by cents desc, id limit 50
"""
LAST = "select id, note from orders where customer = ? order by id desc limit 1"
SHOWN = 100  # customers
TIMEOUT = 30.0  # s to wait for the file's write lock
SCHEMA = """
create table orders (id integer primary key, customer integer, cents integer, note text);
create index by_customer on orders (customer);
create table stock (id integer primary key, amount integer);
insert into stock values (1, 0);
"""
REPORT = """
select customer % 50, count(*), sum(cents), max(note) from orders
where note like '%7%' group by 1 order by 3 desc
"""

_lock = threading.Lock()


def sqlite_lookup() -> str:
    """Open the database and read the 200 orders of one customer through an index."""
    with _connection() as connection:
        rows = connection.execute("select id, cents, note from orders where customer = 42")
        return json.dumps(rows.fetchall())


def sqlite_report() -> str:
    """Sum up 100,000 orders in one statement: SQLite releases the GIL."""
    with _connection() as connection:
        return json.dumps(connection.execute(REPORT).fetchall())


def sqlite_scan() -> str:
    """Read 10,000 rows one by one: each row releases and reacquires the GIL."""
    total = 0
    with _connection() as connection:
        for cents, note in connection.execute(SCAN):
            total += cents + len(note)
    return str(total)


def sqlite_write() -> str:
    """Update a row and sync it to disk: SQLite allows one writer at a time."""
    with _connection() as connection:
        connection.execute("begin immediate")
        connection.execute("update stock set amount = amount + 1 where id = 1")
        connection.commit()
    return "stock changed"


def sqlite_memory() -> str:
    """Fill a table of 4,000 rows in memory and query it."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create table orders (id integer, customer integer, cents integer)")
        connection.executemany(
            "insert into orders values (?, ?, ?)",
            ((n, n % CUSTOMERS, n * 37 % 10_000) for n in range(IN_MEMORY)),
        )
        rows = connection.execute("select customer, sum(cents) from orders group by 1 order by 2")
        return json.dumps(rows.fetchall())


def sqlite_shared_connection() -> str:
    """Sum up the orders of 40 customers over one connection; a lock admits one thread at a time."""
    query = "select sum(cents), count(note) from orders where customer between 100 and 139"
    with _lock:
        return str(_shared_connection().execute(query).fetchone())


def sqlite_search() -> str:
    """Search 100,000 notes for a text, and read the 50 largest orders with it."""
    with _connection() as connection:
        return json.dumps(connection.execute(SEARCH).fetchall())


def sqlite_many_statements() -> str:
    """Read the last order of each of 100 customers, with one statement per customer."""
    with _connection() as connection:
        found = [connection.execute(LAST, (customer,)).fetchone() for customer in range(SHOWN)]
    return json.dumps(found)


@contextlib.contextmanager
def _connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(_file(), timeout=TIMEOUT, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


@functools.cache
def _shared_connection() -> sqlite3.Connection:
    return sqlite3.connect(_file(), check_same_thread=False)


@functools.cache
def _file() -> Path:
    """Return the database file. The first process creates it, and all processes share it."""
    if not FILE.exists():
        FILE.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FILE.parent) as folder:
            built = Path(folder) / FILE.name
            with contextlib.closing(sqlite3.connect(built)) as connection:
                connection.executescript(SCHEMA)
                rows = (
                    (n, n % CUSTOMERS, n * 7919 % 100_000, f"note {n * 31 % 9973}")
                    for n in range(ORDERS)
                )
                connection.executemany("insert into orders values (?, ?, ?, ?)", rows)
                connection.commit()
            with contextlib.suppress(FileExistsError):  # another process was faster
                os.link(built, FILE)
    return FILE
