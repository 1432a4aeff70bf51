"""The journal of a run: an append-only file of records.

A run that is kept may have its records compressed, in records.jsonl.gz. They are read as they are,
and later records are appended to records.jsonl beside it.
"""

from __future__ import annotations

import fcntl
import gzip
import io
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace as replaced
from datetime import UTC, datetime
from errno import ENOTDIR
from functools import cache
from pathlib import Path

from offload import files
from offload.bench.records import machines
from offload.engine.record import Record, SchemaError, from_line, to_line
from offload.errors import StorageError, UsageError, escaped, shortened

RESULTS = Path(os.environ.get("RESULTS", "results")).absolute()
FILE = "records.jsonl"
COMPRESSED = f"{FILE}.gz"
QUESTION = "question.json"  # what a study asked and found besides the records
MOST_LISTED = 3  # line numbers in a warning
LASTING = "load_tests"  # the run to which all single load tests are appended


def new_run(name: str) -> Path:
    """Create the folder of a new run, named by the time in UTC; two runs never share one."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    _make_folder(RESULTS)
    for suffix in ("", *(f"-{n}" for n in range(2, 100))):
        folder = RESULTS / f"{stamp}-{name}{suffix}"
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise _unusable(folder, error) from error
        return folder
    raise StorageError(f"{RESULTS} has 99 runs that started in this second", "retry in a second")


def lasting_run(name: str = LASTING) -> Path:
    """Return the folder of a run that is continued each time; create it if needed."""
    folder = RESULTS / name
    _make_folder(folder)
    return folder


def check_writable() -> None:
    """Raise StorageError unless runs can be written to the results folder."""
    _make_folder(RESULTS)
    try:
        with tempfile.TemporaryFile(dir=RESULTS):
            pass
    except OSError as error:
        raise _unusable(RESULTS, error) from error


def append(folder: Path, *records: Record) -> None:
    """Append records atomically and durably: one write to an O_APPEND descriptor, then fsync.

    Their machine is added to run.json if it is missing there.
    """
    path = folder / FILE
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            # Otherwise a record could be appended to a line that another process has begun. The
            # kernel releases the lock when this process ends, however it ends.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # In the lock, too: run.json is replaced, and could lose the machine of another process.
            lines = [to_line(_as_stored(folder, record)) for record in records]
            _write(descriptor, path, "".join(f"{line}\n" for line in lines).encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _unusable(path, error) from error


def read(folder: Path) -> list[Record]:
    """Read the records of a run; a torn line, left by a crash, is skipped with a warning.

    Raise StorageError if they cannot be read, or were written by another version.
    """
    records = []
    known = machines.read(folder)
    for path, content in _contents(folder):
        bad: dict[int, str] = {}
        lines = content.decode(errors="replace").removesuffix("\n").split("\n")
        for number, line in enumerate(lines if lines != [""] else [], start=1):
            try:
                record = from_line(line)
                machine = known.get(record.trial.machine or "", {})
                records.append(replaced(record, environment=machine))
            except SchemaError as error:
                raise StorageError(
                    f"{path}:{number}: {error}", "measure again, or use the version that wrote it"
                ) from None
            except ValueError as error:
                bad[number] = str(error)
        _warn_of_bad_lines(path, bad)
    return records


def decompressed(folder: Path) -> bytes:
    """Return the lines of a run's compressed records, empty if it has none; raise StorageError."""
    path = folder / COMPRESSED
    if not is_file(path):
        return b""
    most = files.MAX_MIB << 20
    try:
        packed = files.read(path)
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            content = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise StorageError(f"{path} is damaged: {error}", "copy the file again") from None
    if len(content) > most:
        what = f"{path} has more than {files.MAX_MIB} MiB of records"
        raise StorageError(what, "decompress it by gunzip, if you trust it")
    return content


def _contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield each file of a run's records with its lines, the older records first."""
    compressed, plain = decompressed(folder), b""
    path = folder / FILE
    if not is_file(folder / COMPRESSED) or path.exists():
        try:
            plain = files.read(path)
        except OSError as error:
            raise _unusable(path, error) from error
    if not plain.startswith(compressed):  # otherwise it is a copy, which gunzip -k makes
        yield folder / COMPRESSED, compressed
    yield path, plain


def _warn_of_bad_lines(path: Path, bad: Mapping[int, str]) -> None:
    """Print one warning about all lines that are no records, by their numbers and errors."""
    numbers = [*bad]
    if len(numbers) == 1:
        warn_once(f"{path}:{numbers[0]} is not a record, skipped: {bad[numbers[0]]}")
    elif numbers:
        listed = ", ".join(map(str, numbers[:MOST_LISTED]))
        more = ", ..." if len(numbers) > MOST_LISTED else ""
        what = f"{len(numbers)} lines are no records, skipped: {listed}{more}"
        warn_once(f"{path}: {what}; line {numbers[0]}: {bad[numbers[0]]}")


@cache
def warn_once(text: str) -> None:
    """Print a warning, unless this process has printed it before: it may read a run repeatedly."""
    print(f"warning: {shortened(escaped(text))}", file=sys.stderr)


def count(folder: Path) -> int:
    """Count the records of a run that may have none yet."""
    return len(read(folder)) if exists(folder) else 0


def remove_without_records(folder: Path) -> None:
    """Remove the folder of a run that failed before its first record, with its other files."""
    if not exists(folder):
        shutil.rmtree(folder, ignore_errors=True)


def newest() -> Path:
    """Find the run with the newest records; raise StorageError if there is none."""
    try:
        runs = [folder for folder in folders() if not is_example(folder)]
        return max(runs, key=lambda folder: newest_file(folder).stat().st_mtime)
    except ValueError:
        raise StorageError(f"no run in {RESULTS}", "start one by offload quick") from None
    except OSError as error:
        raise _unusable(RESULTS, error) from error


def is_example(folder: Path) -> bool:
    """Whether a run is kept for reference, so that commands do not select it as the newest run.

    These are `baseline-NAME`, and the runs in the repository: `example...` and `reference...`.
    """
    return folder.name.partition("-")[0] in ("example", "reference", "baseline")


def named(run: str) -> Path:
    """Find a run by its folder's name; raise UserError if it does not exist."""
    folder = RESULTS / run
    if not is_name(run) or not has_records(folder):
        if run.lower().endswith(".html"):
            remedy = f"name the folder of its run in {RESULTS}; copy the run of a colleague there"
            raise UsageError(f"{run} is a report, not a run", remedy)
        known = ", ".join(sorted(each.name for each in folders())) or "none"
        raise StorageError(f"no run {run[:100]!r} in {RESULTS}: there are {known}")
    return folder


def is_name(text: str) -> bool:
    """Whether a text can be the name of a folder in results/."""
    return text == Path(text).name and text not in ("", "..")


def folders() -> Iterator[Path]:
    """Yield the folders of all runs; a hidden one is a copy that `baseline` has not ended."""
    for folder in RESULTS.glob("*/"):
        if has_records(folder) and not folder.name.startswith("."):
            yield folder


def has_records(folder: Path) -> bool:
    """Whether a folder has a file of records that can be read, plain or compressed."""
    return is_file(folder / FILE) or is_file(folder / COMPRESSED)


def exists(folder: Path) -> bool:
    """Whether a run has records, which may be no regular file."""
    return (folder / FILE).exists() or (folder / COMPRESSED).exists()


def newest_file(folder: Path) -> Path:
    """Return the file that has the newest records of a run."""
    compressed = folder / COMPRESSED
    return compressed if is_file(compressed) and not is_file(folder / FILE) else folder / FILE


def is_file(path: Path) -> bool:
    """Whether a file exists; False for a name that is too long."""
    try:
        return path.is_file()
    except OSError:
        return False


def replace(path: Path, text: str) -> None:
    """Replace a file atomically: a reader sees the old text or the new one, never a part."""
    try:
        files.replace(path, text.encode())
    except OSError as error:
        raise _unusable(path, error) from error


def _as_stored(folder: Path, record: Record) -> Record:
    """Return a record as it is stored: its machine by name, and no output that it repeats.

    builtin prints nothing but the figures of the record; if it fails, also the reason. Several
    hosts print a line each.
    """
    name = machines.keep(folder, record.environment) if record.environment else None
    load = record.load
    if load.driver == "builtin" and not load.hosts and record.problem is None:
        load = replaced(load, output=None)
    return replaced(record, trial=replaced(record.trial, machine=name), load=load)


def _write(descriptor: int, path: Path, data: bytes) -> None:
    """Append lines, on a new line even after a torn one; write all of the data or nothing."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - 1))
        torn = file.read(1) not in (b"", b"\n")
    written = os.write(descriptor, b"\n" * torn + data)
    if written != len(data) + torn:
        if path.stat().st_size == size + written:  # no other process has appended
            os.ftruncate(descriptor, size)
        raise OSError(28, "only a part of the record could be written")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:  # a file, or a link to a folder that is missing
        raise _unusable(folder, NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR))) from None
    except OSError as error:
        raise _unusable(folder, error) from error


def _unusable(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{path}: {error.strerror}", "check permissions and disk space, or set RESULTS=folder"
    )
