"""The files of runs inside a report: packed into text, and unpacked into folders again."""

from __future__ import annotations

import base64
import binascii
import json
import lzma
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory

from offload.bench.advice import answer
from offload.bench.planning import plan
from offload.bench.records import journal
from offload.errors import StorageError

ID, TYPE = "offload-runs", "application/octet-stream"
FORMAT, VERSION = "offload report", 1
FILES = (journal.FILE, plan.FILE, answer.FILE)
LARGEST = 1 << 24  # bytes of a report that is read; ours have less than 400 kB
LARGEST_RUN = 1 << 28  # bytes of the unpacked files of all runs
MEMORY = 1 << 27  # bytes that unpacking may use
MOST_RUNS = 16
NAME = re.compile(r"(?!\.{1,2}$)[^/\x00]{1,200}")  # of a folder
REMEDY = "open a report.html that fab report:RUN,format=html wrote"


def pack(folders: Sequence[Path]) -> str:
    """Return the files of runs, compressed, in letters that HTML passes unchanged."""
    runs: list[dict[str, object]] = []
    contents: list[bytes] = []
    for folder in folders:
        found = {name: _read(folder / name) for name in FILES if (folder / name).is_file()}
        sizes = {name: len(content) for name, content in found.items()}
        runs.append({"name": folder.name, "files": sizes})
        contents += found.values()
    head = json.dumps({"format": FORMAT, "version": VERSION, "runs": runs}).encode() + b"\n"
    packed = lzma.compress(head + b"".join(contents), check=lzma.CHECK_CRC64)
    return base64.b64encode(packed).decode()


@contextmanager
def unpacked(path: Path) -> Iterator[list[Path]]:
    """Unpack the runs of a report; yield their folders, which are removed in the end.

    Raise StorageError if the file is no report, or is damaged.
    """
    head, contents = _open(path, _element(path, _load(path)))
    with TemporaryDirectory(prefix="offload-report-") as scratch:
        folders = []
        for name, files in _runs(path, head):
            folder = Path(scratch) / name
            folder.mkdir()
            for file, size in files.items():
                (folder / file).write_bytes(contents[:size])
                contents = contents[size:]
            folders.append(folder)
        yield folders


class _Finder(HTMLParser):
    """Find the element with the runs."""

    def __init__(self) -> None:
        super().__init__()
        self.is_inside, self.content, self.is_ours = False, "", False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.is_inside = tag == "script" and ("id", ID) in attrs
        self.is_ours = self.is_ours or self.is_inside

    def handle_endtag(self, tag: str) -> None:
        self.is_inside = False

    def handle_data(self, data: str) -> None:
        if self.is_inside:
            self.content += data


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", "check permissions") from None


def _load(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", REMEDY) from None
    if len(content) > LARGEST:
        raise StorageError(f"{path} is too large for a report", REMEDY)
    return content.decode(errors="replace")


def _element(path: Path, html: str) -> str:
    finder = _Finder()
    finder.feed(html)
    if not finder.is_ours:
        raise StorageError(f"{path} is not a report of this program", REMEDY)
    if not finder.content.strip():
        raise StorageError(f"{path} has no records, which were too large for it", "use their run")
    return finder.content


def _open(path: Path, content: str) -> tuple[object, bytes]:
    """Return the head and the contents of the packed files."""
    try:
        packed = base64.b64decode("".join(content.split()), validate=True)
        opener = lzma.LZMADecompressor(memlimit=MEMORY)
        data = opener.decompress(packed, max_length=LARGEST_RUN)
        if not opener.eof:
            raise _damaged(path)
        head, _, contents = data.partition(b"\n")
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
        is_named = isinstance(name, str) and NAME.fullmatch(name) is not None and name not in names
        if not is_named or not isinstance(files, dict) or not {*files} <= {*FILES}:
            raise _damaged(path)
        if not all(type(size) is int and size >= 0 for size in files.values()):
            raise _damaged(path)
        names.add(str(name))
        yield str(name), files


def _damaged(path: Path) -> StorageError:
    return StorageError(f"{path} is damaged: its records cannot be read", "copy the file again")
