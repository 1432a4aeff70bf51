"""ORM: SQLAlchemy and aiosqlite, with in-memory SQLite databases."""

from __future__ import annotations

import functools
import json
import time

import aiosqlite
from sqlalchemy import Engine, ForeignKey, QueuePool, StaticPool, create_engine, orm, select
from sqlalchemy.orm import Mapped, mapped_column

STABLE = True
PACKAGES = ("sqlalchemy", "aiosqlite")
ORDERS = 200
LINES = 3  # per order
AWAITED_ROWS = 3_000
HELD = 0.02  # s to hold a connection
POOL = 2  # connections
POOL_TIMEOUT = 60.0  # s


class _Base(orm.DeclarativeBase):
    pass


class _Order(_Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    lines: Mapped[list[_Line]] = orm.relationship(order_by="_Line.id")


class _Line(_Base):
    __tablename__ = "lines"
    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"))
    product: Mapped[str]
    cents: Mapped[int]


def sqlalchemy_orders() -> str:
    """Create 200 orders of three lines in memory, load them as objects, and write JSON."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    try:
        _Base.metadata.create_all(engine)
        with orm.Session(engine) as session:
            session.add_all(_order(number) for number in range(ORDERS))
            session.commit()
        with orm.Session(engine) as session:
            orders = session.scalars(select(_Order).options(orm.selectinload(_Order.lines)))
            found = [(o.id, o.customer, sum(line.cents for line in o.lines)) for o in orders]
        return json.dumps(found)
    finally:
        engine.dispose()


def sqlalchemy_small_pool() -> str:
    """Hold one of two pooled connections for 20 ms, as a transaction around a call does."""
    with _small_pool().connect() as connection:
        before = connection.exec_driver_sql("select 20 + 1").scalar()
        time.sleep(HELD)
        after = connection.exec_driver_sql("select 20 + 1").scalar()
    return f"{before} {after}"


async def aiosqlite_report() -> str:
    """Fill and query a table of 3,000 rows with aiosqlite, which uses a thread per connection."""
    async with aiosqlite.connect(":memory:") as connection:
        await connection.execute("create table orders (customer integer, cents integer)")
        rows = [(n % 100, n * 37 % 10_000) for n in range(AWAITED_ROWS)]
        await connection.executemany("insert into orders values (?, ?)", rows)
        query = "select customer, sum(cents) from orders group by 1 order by 1"
        async with connection.execute(query) as cursor:
            return json.dumps([tuple(row) for row in await cursor.fetchall()])


def _order(number: int) -> _Order:
    first = number * LINES
    lines = [
        _Line(id=n, product=f"product {n % 17}", cents=n * 31 % 5000)
        for n in range(first, first + LINES)
    ]
    return _Order(id=number, customer=f"customer {number % 23}", lines=lines)


@functools.cache
def _small_pool() -> Engine:
    return create_engine(
        "sqlite://",
        poolclass=QueuePool,
        pool_size=POOL,
        max_overflow=0,
        pool_timeout=POOL_TIMEOUT,
        connect_args={"check_same_thread": False},
    )
