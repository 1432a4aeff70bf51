"""The formats of a gate's result, and the files that every gate writes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from offload import files
from offload.bench.experiments.gate import GateResult
from offload.engine import journal
from offload.errors import RunError, StorageError, escape_hidden
from offload.reports.gate.badge import badge
from offload.reports.gate.bencher import bencher
from offload.reports.gate.gate_json import as_json
from offload.reports.gate.junit import junit
from offload.reports.gate.markdown import markdown
from offload.reports.gate.text import text

FOLDER = "gate"  # in results/
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")
FORMATS: dict[str, tuple[str, Callable[[GateResult], str]]] = {
    "text": ("gate.txt", lambda found: f"{text(found)}\n"),
    "json": ("gate.json", as_json),
    "markdown": ("gate.md", markdown),
    "junit": ("junit.xml", junit),
    "bencher": ("bencher.json", bencher),
    "badge": ("badge.json", badge),
}


def render(found: GateResult, style: str) -> str:
    """Render a result in one of FORMATS.

    Characters of file names that are not valid text, are hidden, or control a terminal are escaped.
    """
    text = FORMATS[style][1](found).encode("utf-8", "backslashreplace").decode()
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", escape_hidden(text))


@contextmanager
def reserved() -> Iterator[None]:
    """Reserve results/gate for one gate; raise RunError if another process has reserved it.

    The results of the previous gate are removed, so that they are not used if this one fails.
    """
    folder = _folder()
    busy = f"{folder} is reserved by a gate of another process"
    with ExitStack() as stack:
        try:
            error = RunError(busy, "wait until it ends, or set RESULTS=folder")
            stack.enter_context(files.locked(folder, error))
            for name, _ in FORMATS.values():
                (folder / name).unlink(missing_ok=True)
        except OSError as error:
            what = f"{error.filename or folder}: {error.strerror}"
            raise StorageError(what, "check permissions") from error
        yield


def publish(found: GateResult) -> Path:
    """Write a result in every format to results/gate; return the folder."""
    folder = _folder()
    for style, (name, _) in FORMATS.items():
        journal.replace(folder / name, render(found, style))
    return folder


def _folder() -> Path:
    folder = journal.RESULTS / FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"{folder}: {error.strerror}"
        raise StorageError(what, "check permissions and disk space") from error
    return folder
