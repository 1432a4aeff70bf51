"""Pack the files of runs into text inside a report, and unpack them into folders.

A report may come from somebody else and is not trusted. All sizes are limited to those of reports
that this program writes, files are written only into new folders, and every defect raises the same
type of error.
"""

from __future__ import annotations

import base64
import binascii
import json
import lzma
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from offload import documents, files
from offload.bench.planning import plan_file
from offload.bench.records import journal
from offload.errors import StorageError
from offload.reports.pictures.style import PALETTE

ID, TYPE = "offload-runs", "application/octet-stream"
START, END = f'<script type="{TYPE}" id="{ID}">', "</script>"
FORMAT, VERSION = "offload report", 1
FILES = (
    *(journal.FILE, plan_file.FILE),
    *(documents.FILE, documents.QUESTION),
)
LARGEST = 1_000_000  # bytes of a report that is read; ours have at most 400 kB
LARGEST_HEAD = 10_000  # bytes of the list of its runs
LARGEST_RUNS = 1 << 23  # bytes of the files of all runs, which compress to 5 % or more
MEMORY = 1 << 26  # bytes that unpacking may use
MOST_RUNS = len(PALETTE)
LONGEST_NAME = 200  # bytes of the name of a folder
REMEDY = "open a report.html that offload report RUN format=html wrote"


def pack(folders: Sequence[Path]) -> str:
    """Return the files of runs, compressed and encoded in characters that HTML does not escape.

    Return an empty text if the files are too large.
    """
    runs: list[dict[str, object]] = []
    contents: list[bytes] = []
    for folder in folders:
        names = [name for name in (*FILES, journal.COMPRESSED) if _is_own(folder / name)]
        if sum((folder / name).stat().st_size for name in names) > LARGEST_RUNS:
            return ""
        found = {name: _read(folder / name) for name in names}
        if found.pop(journal.COMPRESSED, None) is not None:
            found = {journal.FILE: journal.read_lines(folder), **found}
        sizes = {name: len(content) for name, content in found.items()}
        runs.append({"name": folder.name, "files": sizes})
        contents += found.values()
    head = json.dumps({"format": FORMAT, "version": VERSION, "runs": runs}).encode() + b"\n"
    content = head + b"".join(contents)
    if len(content) > LARGEST_RUNS:
        return ""
    packed = lzma.compress(content, check=lzma.CHECK_CRC64)
    return base64.b64encode(packed).decode()


def _is_own(path: Path) -> bool:
    """Whether a file is in its folder: a link there may lead to any file of the user."""
    return path.is_file() and not path.is_symlink()


@contextmanager
def unpack(path: Path) -> Iterator[list[Path]]:
    """Unpack the runs of a report; yield their folders, which are removed afterwards.

    Raise StorageError if the file is not a report, or if it is damaged.
    """
    head, contents = _open(path, _element(path, _load(path)))
    runs = [*_runs(path, head)]
    if sum(size for _, files in runs for size in files.values()) != len(contents):
        raise _damaged(path)
    try:
        scratch = TemporaryDirectory(prefix="offload-report-")
    except OSError as error:
        raise _no_room("no temporary folder", error) from None
    with scratch as name:
        yield _write(Path(name), runs, contents)


def _write(
    scratch: Path, runs: Sequence[tuple[str, dict[str, int]]], contents: bytes
) -> list[Path]:
    """Write the files of runs into new folders."""
    folders, start = [], 0
    try:
        for name, files in runs:
            folder = scratch / name
            folder.mkdir()
            for file, size in files.items():
                (folder / file).write_bytes(contents[start : start + size])
                start += size
            folders.append(folder)
    except OSError as error:
        raise _no_room(str(scratch), error) from None
    return folders


def _no_room(where: str, error: OSError) -> StorageError:
    return StorageError(f"{where}: {error.strerror}", "check disk space, or set TMPDIR=folder")


def _read(path: Path) -> bytes:
    try:
        return files.read(path)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", "check permissions") from None


def _load(path: Path) -> str:
    try:
        content = files.read(path, LARGEST + 1)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", REMEDY) from None
    if len(content) > LARGEST:
        raise StorageError(f"{path} is too large for a report", REMEDY)
    return content.decode(errors="replace")


def _element(path: Path, html: str) -> str:
    """Return the content of the element with the runs.

    No other text of a report can look like this element, because `<` is escaped in texts.
    """
    _, start, rest = html.partition(START)
    if not start:
        raise StorageError(f"{path} is not a report of this program", REMEDY)
    content = rest.partition(END)[0].strip()
    if not content:
        raise StorageError(f"{path} has no records, which were too large for it", "use their run")
    return content


def _open(path: Path, content: str) -> tuple[object, bytes]:
    """Return the head and the contents of the packed files."""
    try:
        packed = base64.b64decode("".join(content.split()), validate=True)
        opener = lzma.LZMADecompressor(memlimit=MEMORY)
        data = opener.decompress(packed, max_length=LARGEST_RUNS)
        head, _, contents = data.partition(b"\n")
        if not opener.eof or len(head) > LARGEST_HEAD:
            raise _damaged(path)
        return json.loads(head), contents
    except (binascii.Error, lzma.LZMAError, EOFError, ValueError, RecursionError):
        raise _damaged(path) from None


def _runs(path: Path, head: object) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the name of each run, and the sizes of its files."""
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise _damaged(path)
    if head.get("version") != VERSION:
        what = f"{path} was written by another version of this program"
        raise StorageError(what, "use that version")
    runs = head.get("runs")
    if not isinstance(runs, list) or not 1 <= len(runs) <= MOST_RUNS:
        raise _damaged(path)
    names = set[str]()
    for run in runs:
        name, files = (run.get("name"), run.get("files")) if isinstance(run, dict) else ("", {})
        if not isinstance(name, str) or not _is_folder(name) or name in names:
            raise _damaged(path)
        if not isinstance(files, dict) or not {*files} <= {*FILES}:
            raise _damaged(path)
        if not all(type(size) is int and size >= 0 for size in files.values()):
            raise _damaged(path)
        names.add(name)
        yield name, files


def _is_folder(name: str) -> bool:
    """Whether a name is printable and can be the name of a subfolder."""
    is_name = name == Path(name).name and name not in ("", "..") and name.isprintable()
    return is_name and len(name.encode()) <= LONGEST_NAME


def _damaged(path: Path) -> StorageError:
    return StorageError(f"{path} is damaged: its records cannot be read", "copy the file again")
