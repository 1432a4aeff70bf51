"""Faults of the storage and of the clock: no record is lost, no line is corrupt."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from offload.engine import journal
from offload.engine.record import to_line
from offload.errors import StorageError
from tests import ROOT
from tests.bench.records.test_journal import RECORD
from tests.records import changed

# In a mount namespace of its own: fill a tmpfs with records, then make space and append again.
FULL_DISK = """
import json, subprocess, sys
from pathlib import Path
from offload.engine import journal
from offload.engine.record import from_line
from offload.errors import StorageError
from tests.records import changed
folder, record = Path(sys.argv[1]), from_line(sys.argv[2])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], check=True)
(folder / "other").write_bytes(bytes(64 * 1024))
stored, error = [], None
for number in range(1000):
    try:
        journal.append(folder, changed(record, order=number, output="x" * 3000))
    except StorageError as raised:
        error = str(raised)
        break
    stored.append(number)
(folder / "other").unlink()
journal.append(folder, changed(record, order=-1))
read = [each.trial.order for each in journal.read(folder)]
data = (folder / journal.FILE).read_bytes()
print(json.dumps({"kept": read == [*stored, -1], "stored": len(stored), "error": error,
                  "lines": data.count(b"\\n")}))
"""
READ_ONLY = """
import sys
from offload.engine import journal
from offload.errors import StorageError
try:
    journal.check_writable()
except StorageError as error:
    print(error)
    sys.exit(error.exit_code)
"""
NAMESPACE = ["unshare", "--mount", "--propagation", "private"]
NO_NAMESPACE = "needs root and mount namespaces"


def _can_unshare() -> bool:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    command = [*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(command, capture_output=True, timeout=10).returncode == 0


@pytest.mark.server
def test_on_a_full_disk_every_acknowledged_record_is_kept(tmp_path: Path) -> None:
    if not _can_unshare():
        pytest.skip(NO_NAMESPACE)
    command = [*NAMESPACE, sys.executable, "-c", FULL_DISK]
    ended = subprocess.run(
        [*command, str(tmp_path), to_line(RECORD)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    assert found["kept"], ended.stderr
    assert found["stored"] > 5
    assert found["lines"] == found["stored"] + 1
    assert "check permissions and disk space" in found["error"]
    assert ended.stderr == ""


def test_a_record_is_not_appended_to_a_line_that_another_writer_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One writer breaks off between another one's check of the last line and its write."""
    journal.append(tmp_path, RECORD)
    checked, broken = threading.Event(), threading.Event()
    real = os.write

    def write(descriptor: int, data: bytes) -> int:
        if threading.current_thread().name == "whole":
            checked.set()
            broken.wait(0.5)  # with a lock, the other writer waits for this one instead
            return real(descriptor, data)
        if threading.current_thread().name == "broken":
            real(descriptor, data[: len(data) // 2])
            broken.set()
            raise OSError(5, "Input/output error")  # as if it had been killed
        return real(descriptor, data)

    monkeypatch.setattr(journal.os, "write", write)

    def append_and_break() -> None:
        checked.wait(10)
        with pytest.raises(StorageError):
            journal.append(tmp_path, changed(RECORD, order=3))

    whole = threading.Thread(
        target=journal.append, args=(tmp_path, changed(RECORD, order=2)), name="whole"
    )
    other = threading.Thread(target=append_and_break, name="broken")
    whole.start()
    other.start()
    whole.join(20)
    other.join(20)
    journal.append(tmp_path, changed(RECORD, order=4))
    assert [each.trial.order for each in journal.read(tmp_path)] == [None, 2, 4]
    assert capsys.readouterr().err.count("is not a record") == 1


@pytest.mark.server
def test_results_that_are_read_only_are_one_line_with_a_fix(tmp_path: Path) -> None:
    """Root may write to any folder, so it gets a file system that is read-only."""
    tmp_path.chmod(0o555)
    command = [sys.executable, "-c", READ_ONLY, str(tmp_path)]
    if os.geteuid() == 0:
        if not _can_unshare():
            pytest.skip(NO_NAMESPACE)
        mount = 'mount -t tmpfs -o ro tmpfs "$0" && exec "$@"'
        command = [*NAMESPACE, "sh", "-c", mount, str(tmp_path), *command]
    environment = {**os.environ, "RESULTS": str(tmp_path)}
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=20
    )
    tmp_path.chmod(0o755)
    assert ended.returncode == StorageError.exit_code == 6
    assert ended.stderr == ""
    assert ended.stdout.count("\n") == 1
    assert "check permissions and disk space, or set RESULTS=folder" in ended.stdout
