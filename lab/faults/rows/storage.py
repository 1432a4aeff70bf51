"""R15: the disk is full or read-only, eight benchmarks write at once, one is killed at random."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from lab import environment
from lab.faults.commands import bench_process
from lab.faults.commands.bench_process import BENCH, BenchExit
from lab.faults.commands.killed_runs import KilledRuns
from lab.faults.row import NotAvailable, Outcome, Row, Size
from lab.faults.servers.faulty_server import faulty
from offload.engine import journal
from offload.errors import StorageError
from offload.units import counted

SERVER = "loop"  # the server that is loaded
AT_ONCE = 8  # benchmarks
LONGEST_S = 20.0  # before a kill: the start and a few rounds
DISK, PAGE = 256 * 1024, 4096  # bytes of the disk, and of its smallest part
SPARE = (0, 1, 2)  # pages that are left on the full disk
DISK_S = 120.0  # timeout of all loads on the full disk
PRIVATE = ("unshare", "--mount", "--propagation", "private")
NO_NAMESPACE = "needs root and mount namespaces"
ON_DISK = """
import sys
from lab.faults.rows import storage
storage.on_small_disk(*sys.argv[1:])
"""


def inject(name: str, size: Size) -> Outcome:
    """Let benchmarks write their records while the storage fails or they are killed."""
    with tempfile.TemporaryDirectory(prefix="offload-faults-") as folder:
        return FAULTS[name](Path(folder), size)


def _fill_disk(folder: Path, _: Size) -> Outcome:
    """Fill a small disk in a mount namespace of its own, load there, make space, load again."""
    if not _can_mount():
        raise NotAvailable(NO_NAMESPACE)
    with faulty(SERVER, "ok") as target:
        done = subprocess.run(
            [*PRIVATE, sys.executable, "-P", "-c", ON_DISK, str(folder), str(target.port)],
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DISK_S,
        )
    if done.returncode:
        return Outcome(False, done.stderr.strip().splitlines()[-1])
    return Outcome(*json.loads(done.stdout))


def on_small_disk(folder: str, port: str) -> None:
    """Print an outcome as JSON; this process has a mount namespace of its own."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", folder], check=True)
    results, filler = Path(folder), Path(folder, "filler")
    ended = [_load(results, int(port))]
    for pages in SPARE:
        _fill(filler, pages)
        ended.append(_load(results, int(port)))
    filler.unlink()
    ended.append(_load(results, int(port)))
    stored = sum(each.code == 0 for each in ended)
    kept, corrupt = _count(results)
    full = [each for each in ended[1:-1] if each.code != 0]
    is_kept = ended[0].code == ended[-1].code == 0 and bool(full) and not corrupt
    is_kept = is_kept and stored <= kept <= len(ended) and all(map(_is_storage_error, full))
    codes = ", ".join(str(each.code) for each in ended)
    figure = f"exit codes {codes}: {stored} loads, {max(0, stored - kept)} records lost"
    errors = [each.errors[-1] for each in full if not _is_storage_error(each) and each.errors]
    print(json.dumps((is_kept, "; ".join([f"{figure}, {corrupt} corrupt lines", *errors[:1]]))))


def _make_read_only(folder: Path, _: Size) -> Outcome:
    """Load while nothing can be written to the results folder."""
    prefix: tuple[str, ...] = ()
    results = folder / "results"
    results.mkdir(mode=0o555)
    if os.geteuid() == 0:  # root may write to any folder, so it gets a disk that is read-only
        if not _can_mount():
            raise NotAvailable(NO_NAMESPACE)
        mount = 'mount -t tmpfs -o ro tmpfs "$0" && exec "$@"'
        prefix = (*PRIVATE, "sh", "-c", mount, str(results))
    with faulty(SERVER, "ok") as target:
        with bench_process.running(_words(target.port), results, prefix=prefix) as bench:
            ended = bench.wait()
        calls = target.calls()
    is_kept = _is_storage_error(ended) and len(ended.errors) == 1 and calls == 0
    words = "; ".join(ended.errors[-1:]).replace(str(folder), "...")
    return Outcome(is_kept, f"exit {ended.code} after {calls} requests: {words}")


def _write_at_once(folder: Path, size: Size) -> Outcome:
    """Let eight benchmarks append to one file, again and again."""
    ended: list[BenchExit] = []
    with faulty(SERVER, "ok") as target:

        def repeat() -> None:
            for _ in range(max(1, size.requests // AT_ONCE)):
                ended.append(_load(folder, target.port))

        threads = [threading.Thread(target=repeat) for _ in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    kept, corrupt = _count(folder)
    failed = [each for each in ended if each.code != 0]
    figure = f"{len(ended)} loads, {len(ended) - kept} records lost, {corrupt} corrupt lines"
    more = [f"exit {each.code}: {'; '.join(each.errors[-1:])}" for each in failed[:1]]
    return Outcome(kept == len(ended) and not corrupt and not failed, "; ".join([figure, *more]))


def _kill_at_random(folder: Path, size: Size) -> Outcome:
    """Kill runs at random points, leave a torn line, and resume until they are complete."""
    times = random.Random(size.kills)  # noqa: S311 - repeatable
    found = KilledRuns(folder)
    while found.kills < size.kills and not found.failures:
        found.kill_after(times.uniform(0.0, LONGEST_S))
    found.tear()
    found.complete()
    lost, corrupt = found.lost(), found.corrupt()
    figure = (
        f"{counted(found.kills, 'kill')}, {found.kills_after_record} after the first record: "
        f"{lost} of {counted(found.trials, 'trial')} lost, {counted(corrupt, 'corrupt line')}; "
        f"{counted(len(found.seen), 'run')} resumed"
    )
    is_kept = not lost and not corrupt and not found.failures
    return Outcome(is_kept, "; ".join([figure, *found.failures]))


def _load(results: Path, port: int) -> BenchExit:
    return bench_process.run(_words(port), results)


def _words(port: int) -> str:
    return f"run_load_test:url=http://127.0.0.1:{port}/,requests=20,users=2,driver=builtin"


def _count(results: Path) -> tuple[int, int]:
    """Return the number of records, and that of lines that are no record."""
    path = results / journal.LASTING / journal.FILE
    kept = len(journal.read(path.parent))
    return kept, len(path.read_bytes().removesuffix(b"\n").split(b"\n")) - kept


def _fill(filler: Path, pages: int) -> None:
    """Fill the disk up to a number of free pages."""
    filler.unlink(missing_ok=True)
    disk = os.statvfs(filler.parent)
    filler.write_bytes(bytes(max(0, disk.f_bavail * disk.f_bsize - pages * PAGE)))


def _is_storage_error(ended: BenchExit) -> bool:
    return ended.code == StorageError.exit_code and bool(ended.error)


def _can_mount() -> bool:
    """Whether this process may mount a file system in a namespace of its own."""
    if os.geteuid() != 0 or shutil.which(PRIVATE[0]) is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        command = [*PRIVATE, "mount", "-t", "tmpfs", "tmpfs", folder]
        return subprocess.run(command, capture_output=True, timeout=10).returncode == 0


FAULTS: dict[str, Callable[[Path, Size], Outcome]] = {
    f"{BENCH}-disk-full": _fill_disk,
    f"{BENCH}-read-only": _make_read_only,
    f"{BENCH}-eight-at-once": _write_at_once,
    f"{BENCH}-killed": _kill_at_random,
}
ROW = Row(
    "R15",
    "a full disk, a read-only one, eight benchmarks at once, kill -9 at random points",
    "no finished trial is lost, no line is corrupt; exit 6 and one line, and resume continues",
    inject,
    tuple(FAULTS),
)
