"""Baselines: runs that are kept under a name, in results/baseline-NAME."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from offload.bench.records import journal, machines
from offload.errors import RunError, StorageError, UsageError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
PREFIX = "baseline-"
KEPT = (*(journal.FILE, journal.COMPRESSED, machines.FILE, journal.QUESTION, "results.txt"),)


def keep(name: str, run: Path) -> Path:
    """Copy a run's records to the baseline `name`, which is replaced; return its folder.

    Raise RunError if no case of the run has a rate.
    """
    if NAME.fullmatch(name) is None:
        form = "letters, digits, '.', '_' and '-', such as main or v1.2"
        raise UsageError(f"name={name[:100]!r} is not the name of a baseline", f"use {form}")
    if not any(record.result.rate for record in journal.read(run)):
        raise RunError(f"{run.name} has no rates", "name another run by run=")
    folder = journal.RESULTS / f"{PREFIX}{name}"
    new, old = (journal.RESULTS / f".{part}-{name}.{os.getpid()}" for part in ("new", "old"))
    try:
        new.mkdir()
        for file in KEPT:
            if (run / file).exists():
                shutil.copyfile(run / file, new / file)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    except OSError as error:
        what = f"{folder}: {error.strerror}"
        raise StorageError(what, "check permissions and disk space") from error
    finally:
        if old.exists() and not folder.exists():
            old.rename(folder)
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    return folder


def names() -> list[str]:
    """Return the names of all baselines."""
    found = (folder.name for folder in journal.folders() if folder.name.startswith(PREFIX))
    return sorted(name.removeprefix(PREFIX) for name in found)


def find(name: str) -> Path:
    """Find a baseline, or else a run, by its name; raise StorageError if there is none."""
    folder = journal.RESULTS / f"{PREFIX}{name}"
    if journal.is_name(name) and journal.has_records(folder):
        return folder
    try:
        return journal.named(name)
    except StorageError:
        known = f"there are {', '.join(names())}" if names() else "there is none"
        what = f"no baseline {name[:100]!r} in {journal.RESULTS}: {known}"
        raise StorageError(what, "offload baseline NAME keeps the newest run") from None
