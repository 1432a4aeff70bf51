"""A pool of two connections to sqlite, which a query of 50 ms holds for its time."""

import queue
import sqlite3
import time

SIZE = 2


def connect() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.create_function("wait", 1, time.sleep)
    return connection


POOL: queue.Queue[sqlite3.Connection] = queue.Queue()
for _ in range(SIZE):
    POOL.put(connect())


def query() -> str:
    """Run a query on a connection of the pool, and wait for one first."""
    connection = POOL.get()
    try:
        return str(connection.execute("SELECT wait(0.05), 7").fetchone()[1])
    finally:
        POOL.put(connection)
