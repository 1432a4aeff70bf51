"""The octopus database: a reproducible sqlite file, verified by row counts and a hash."""

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
FEW = {"user": 1000, "octopus_type": 10, "sea_food": 70}  # rows, for any number of octopuses
MANY = ("octopus", "octopus_eats")
KNOWN = {ROWS: "79319a8815b8c6e4ae3901c0d11c6206b0605daf1e7bf4eb65b8ba0e64ae8351"}  # sha256 by rows
CHUNK = 10_000  # rows hashed at once

# The indexes of foreign keys are created after the rows: this takes a third of the time.
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
# In place of random(): each column uses some bits of a multiplicative hash of the row's number.
OCTOPUSES = f"""INSERT INTO octopus {COUNT}
SELECT id, 'octopus ' || id, 100 + (id * 2654435761 >> 7) % 9900,
1 + (id * 2654435761 >> 17) % {FEW["octopus_type"]}, 1 + (id * 2654435761 >> 11) % {FEW["user"]}
FROM n"""
EATS = f"""INSERT INTO octopus_eats {COUNT}
SELECT id, id, 1 + (id * 2654435761 >> 13) % {FEW["sea_food"]} FROM n"""


def path() -> Path:
    """Return the database's path: OCTOPUS_DB, or a file in the cache folder."""
    return Path(os.environ.get("OCTOPUS_DB", places.cache() / "octopus.sqlite3"))


def build(rows: int) -> str:
    """Rebuild the database with `rows` octopuses, atomically; return its hash, or StorageError."""
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
        wrong = _find_error(new, rows)
        if wrong is None:
            new.replace(path())
    except (OSError, sqlite3.Error) as error:
        raise StorageError(f"{path()}: {error}", "check permissions and disk space") from error
    finally:
        new.unlink(missing_ok=True)
    if wrong is not None:
        version = sqlite3.sqlite_version
        what = f"{path()}: {wrong}: sqlite {version} builds different rows"
        raise StorageError(what, "use a Python with another sqlite")
    return digest


def is_complete(rows: int) -> bool:
    """Whether the database exists with `rows` octopuses and an unchanged content."""
    try:
        return _find_error(path(), rows) is None
    except sqlite3.Error:
        return False


def check() -> None:
    """Raise MachineError unless the database exists; its rows are not verified."""
    try:
        with _open(path()) as db:
            found = db.execute("SELECT sha256 FROM built").fetchall()
    except sqlite3.Error:
        found = []
    if not found:
        raise MachineError(f"no octopus database at {path()}", "offload build_octopus_db")


def _find_error(file: Path, rows: int) -> str | None:
    """Return a message about the first error in the database; None if it is correct."""
    with _open(file) as db:
        for table, count in (*FEW.items(), *((name, rows) for name in MANY)):
            [(found,)] = db.execute(f"SELECT count(*) FROM {table}")
            if found != count:
                return f"{table} has {found} rows, not {count}"
        [(recorded,)] = db.execute("SELECT sha256 FROM built")
        if _digest(db) != recorded or recorded != KNOWN.get(rows, recorded):
            return "the hash of its rows differs"
    return None


@contextlib.contextmanager
def _open(file: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
        yield db


def _digest(db: sqlite3.Connection) -> str:
    """Hash the rows of all tables, in order: the file itself contains sqlite's version."""
    digest = hashlib.sha256()
    for table in (*FEW, *MANY):
        rows = db.execute(f"SELECT * FROM {table} ORDER BY id")
        while some := rows.fetchmany(CHUNK):
            digest.update(repr(some).encode())
    return digest.hexdigest()
