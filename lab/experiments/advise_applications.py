"""Advise on small applications with one known cause each, and print the reported causes.

The column Prediction is the predicted rate divided by the measured one, and the predicted limit.

Arguments of python -m lab advise_applications:

(none)          all of them, about 2 minutes each
60              with budget=60 for each, in seconds
60 flask gil    those whose name contains one of the words

The applications are in tests/applications/seeded, and need the packages of `make suites`. If a
package or a Python is missing, the row of the application states this. Run it on a quiet machine.
The exit code is 1 if a wrong cause is reported, and 7 if one measurement was disturbed.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from offload.documents.text import TableLine, render_table
from offload.engine.server import find_interpreters
from offload.errors import UsageError, UserError
from scripts.script import ROOT, run
from tests.applications import extension
from tests.applications.seeded import ADVISED, FOLDER, Seeded

BUDGET_S, SHORTEST_S = 120.0, 30.0
LONGER_S = 120.0  # time beyond the budget after which an advice is stopped
HEAD = ("Application", "Seeded cause", "Named cause", "Server advised", "Prediction", "Seconds")
DISTURBED = 7
Row = tuple[str, ...]


def main(words: list[str]) -> int:
    """Advise on each application, then print the table."""
    budget_s = _budget(words[0]) if words else BUDGET_S
    wanted = words[1:]
    chosen = [each for each in ADVISED if not wanted or any(w in each.app for w in wanted)]
    if not chosen:
        raise UsageError(f"no application is named like {', '.join(wanted)}", "leave them out")
    rows, wrong, disturbed = [], 0, 0
    for each in chosen:
        print(f"{each.app}: {budget_s:.0f} s", file=sys.stderr, flush=True)
        row, code = _advise(each, budget_s)
        rows.append(row)
        disturbed += code == DISTURBED
        wrong += code in (0, DISTURBED) and row[2].split(",")[0] != each.cause
    print(render_table(HEAD, [TableLine(row) for row in rows]))
    return 1 if wrong else DISTURBED if disturbed else 0


def _budget(text: str) -> float:
    if not text.isdigit() or not SHORTEST_S <= int(text) <= 3600:
        raise UsageError(f"{text!r} is not a budget in s from {SHORTEST_S:.0f} to 3600")
    return float(text)


def _advise(seeded: Seeded, budget_s: float) -> tuple[Row, int]:
    """Return the row of an application, and its exit code: -1 if a requirement is missing."""
    missing = [name for name in seeded.packages if importlib.util.find_spec(name) is None]
    if missing:
        return _row(seeded, f"{' and '.join(missing)} is missing"), -1
    with _folder(seeded) as (folder, python):
        if seeded.python is not None and python is None:
            return _row(seeded, "no free-threaded Python, or no compiler"), -1
        started = time.monotonic()
        code, output, errors = _command(seeded, budget_s, folder, python)
        took_s = time.monotonic() - started
    try:
        found = json.loads(output)
    except ValueError:
        last = errors.strip().splitlines()[-1:] or ["no output"]
        return _row(seeded, last[0][:60], seconds=f"{took_s:.0f}"), code
    named = ", ".join(cause["kind"] for cause in found["causes"])
    note = " (disturbed)" if code == DISTURBED else ""
    return _row(seeded, named, _server(found) + note, _prediction(found), f"{took_s:.0f}"), code


def _row(
    seeded: Seeded, named: str, server: str = "", prediction: str = "", seconds: str = ""
) -> Row:
    return seeded.app, seeded.cause, named, server, prediction, seconds


def _prediction(found: dict[str, Any]) -> str:
    """Return the predicted rate over the measured one, and the predicted limit."""
    predicted, measured = found["predicted_rate"], found["rate"]
    if not predicted or not measured:
        return "unknown"
    return f"{predicted / measured:.2f}x ({found['limit']})"


def _server(found: dict[str, Any]) -> str:
    threads = "" if found["threads"] is None else f" x {found['threads']}"
    return f"{found['server']} {found['processes']}{threads}"


def _command(
    seeded: Seeded, budget_s: float, folder: Path, python: str | None
) -> tuple[int, str, str]:
    options = [f"app={seeded.app}", f"path={folder}", f"request={seeded.request}"]
    options += [f"users={seeded.users}", f"budget={budget_s:.0f}", "format=json"]
    options += [] if python is None else [f"python={python}"]
    code = "import sys; from offload.cli import main; sys.exit(main())"
    argv = [sys.executable, "-c", code, f"advise:{','.join(options)}"]
    try:
        ended = subprocess.run(
            argv,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=budget_s + LONGER_S,
        )
    except subprocess.TimeoutExpired as expired:
        return 124, "", f"no answer within {expired.timeout:.0f} s"
    return ended.returncode, ended.stdout, ended.stderr


@contextmanager
def _folder(seeded: Seeded) -> Iterator[tuple[Path, str | None]]:
    """Yield the import folder and the Python; for free threading, build the extension first."""
    if seeded.python is None:
        yield FOLDER, None
        return
    found = [each for each in find_interpreters() if not each.gil_enabled]
    with tempfile.TemporaryDirectory(prefix="seeded-") as name:
        if not found or shutil.which("cc") is None:
            yield FOLDER, None
            return
        folder = Path(shutil.copytree(FOLDER, Path(name, "seeded")))
        try:
            extension.build(found[0].path, folder)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise UserError(f"the extension is not built: {error}", "install its headers") from None
        yield folder, found[0].name


if __name__ == "__main__":
    run(main)
