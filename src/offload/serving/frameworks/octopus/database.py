"""The octopus database: sqlite, built the same each time, and checked by its rows and a hash."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from offload.errors import MachineError, StorageError
from offload.registry import places

ROWS = 1_000_000
FEW = {"user": 1000, "octopus_type": 10, "sea_food": 70}  # rows, however many octopuses there are
MANY = ("octopus", "octopus_eats")
KNOWN = {ROWS: "79319a8815b8c6e4ae3901c0d11c6206b0605daf1e7bf4eb65b8ba0e64ae8351"}  # sha256 by rows
CHUNK = 10_000  # rows that are hashed at once

# Foreign keys are not indexed until the rows are in, which takes a third of the time.
TABLES = """
CREATE TABLE user (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE octopus_type (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE sea_food (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE octopus (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, weight INTEGER NOT NULL,
    octopus_type_id INTEGER NOT NULL REFERENCES octopus_type,
    user_id INTEGER NOT NULL REFERENCES user
);
CREATE TABLE octopus_eats (
    id INTEGER PRIMARY KEY,
    octopus_id INTEGER NOT NULL REFERENCES octopus,
    seafood_id INTEGER NOT NULL REFERENCES sea_food
);
CREATE TABLE built (sha256 TEXT NOT NULL);
"""
INDEXES = """
CREATE INDEX octopus_of_type ON octopus (octopus_type_id);
CREATE INDEX octopus_of_user ON octopus (user_id);
CREATE INDEX eaten_by ON octopus_eats (octopus_id);
CREATE INDEX eats ON octopus_eats (seafood_id);
"""
COUNT = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < ?) "
NAMED = "INSERT INTO {table} " + COUNT + "SELECT id, '{table} ' || id FROM n"
# In place of random(): a multiplicative hash of the row's number, some bits of it for each column.
OCTOPUSES = f"""INSERT INTO octopus {COUNT}
SELECT id, 'octopus ' || id, 100 + (id * 2654435761 >> 7) % 9900,
1 + (id * 2654435761 >> 17) % {FEW["octopus_type"]}, 1 + (id * 2654435761 >> 11) % {FEW["user"]}
FROM n"""
EATS = f"""INSERT INTO octopus_eats {COUNT}
SELECT id, id, 1 + (id * 2654435761 >> 13) % {FEW["sea_food"]} FROM n"""


def path() -> Path:
    """Give where it is: OCTOPUS_DB, or under .data."""
    return Path(os.environ.get("OCTOPUS_DB", places.cache() / "octopus.sqlite3"))


def build(rows: int) -> str:
    """Build it anew with so many octopuses, in one step; give its hash, raise StorageError."""
    new = path().with_suffix(".new")
    try:
        path().parent.mkdir(parents=True, exist_ok=True)
        new.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as db:
            db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;" + TABLES)
            for table, count in FEW.items():
                db.execute(NAMED.format(table=table), (count,))
            db.execute(OCTOPUSES, (rows,))
            db.execute(EATS, (rows,))
            digest = _digest(db)
            db.execute("INSERT INTO built VALUES (?)", (digest,))
            db.execute("COMMIT")
            db.executescript(INDEXES)
        wrong = _wrong(new, rows)
        if wrong is None:
            new.replace(path())
    except (OSError, sqlite3.Error) as error:
        raise StorageError(f"{path()}: {error}: mend its rights or space") from error
    finally:
        new.unlink(missing_ok=True)
    if wrong is not None:
        raise StorageError(f"{path()}: {wrong}: this sqlite {sqlite3.sqlite_version} builds others")
    return digest


def is_whole(rows: int) -> bool:
    """Say whether it is there with so many octopuses, and is what was built."""
    try:
        return _wrong(path(), rows) is None
    except sqlite3.Error:
        return False


def check() -> None:
    """Raise MachineError unless there is a database to serve; its rows are not looked at."""
    try:
        with _reading(path()) as db:
            found = db.execute("SELECT sha256 FROM built").fetchall()
    except sqlite3.Error:
        found = []
    if not found:
        raise MachineError(f"there are no octopuses at {path()}: fab build_octopus_db")


def _wrong(file: Path, rows: int) -> str | None:
    """Say what is not as it should be; None when all is well."""
    with _reading(file) as db:
        for table, count in (*FEW.items(), *((name, rows) for name in MANY)):
            [(found,)] = db.execute(f"SELECT count(*) FROM {table}")
            if found != count:
                return f"{table} has {found} rows, not {count}"
        [(noted,)] = db.execute("SELECT sha256 FROM built")
        if _digest(db) != noted or noted != KNOWN.get(rows, noted):
            return "its rows have another hash"
    return None


@contextlib.contextmanager
def _reading(file: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
        yield db


def _digest(db: sqlite3.Connection) -> str:
    """Hash all rows of all tables, in order; the file itself has sqlite's version in it."""
    digest = hashlib.sha256()
    for table in (*FEW, *MANY):
        rows = db.execute(f"SELECT * FROM {table} ORDER BY id")
        while some := rows.fetchmany(CHUNK):
            digest.update(repr(some).encode())
    return digest.hexdigest()
