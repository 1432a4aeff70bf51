"""Mutation testing: check that the tests fail when the code is changed.

Random places in the files of AREAS are changed by random operators of cosmic-ray. A mutant is
killed when a test of its area fails. Everything runs in copies of the project.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from multiprocessing.pool import ThreadPool
from pathlib import Path

import psutil

from offload.units import percent

try:
    from cosmic_ray import plugins
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
except ModuleNotFoundError:
    sys.exit("cosmic-ray is not installed: make mutants installs it")

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / ".data" / "mutants.jsonl"
TIMEOUT = 240.0  # s for all tests of one mutant; the limit of each test is 30 s
EXCLUDED = ("Eq_Is", "NotEq_IsNot", "Is_Eq", "IsNot_NotEq", "Variable")  # mostly equivalent mutants
POOL = ("scheduling/[a-z]*", "workers/worker_manager", "workers/worker_connection")
REPORTS = "tests/reports/test_[!c]*.py"
AREAS = {  # files to mutate, and their tests, fastest first
    "src/offload/engine/intervals.py": ("tests/bench/stats/test_*.py",),
    "src/offload/engine/decisions.py": ("tests/bench/stats/test_*.py",),
    "src/offload/studies/gil/figures.py": ("tests/bench/stats/models/test_*.py",),
    "src/offload/engine/record.py": (
        "tests/bench/records/test_journal*.py",
        "tests/bench/records/test_record*.py",
    ),
    "src/offload/engine/journal.py": (
        "tests/bench/records/test_journal*.py",
        "tests/bench/records/test_record*.py",
    ),
    "src/offload/documents/claim_tables.py": (REPORTS, "tests/reports/test_c*.py"),
    "lab/pools/hops_table.py": (
        "tests/lab/pools/test_hops.py",
        "tests/lab/pools/test_pool_lines.py",
    ),
    "lab/pools/pools_table.py": ("tests/lab/pools/test_summary.py",),
    "src/offload/causes/[a-z]*.py": ("tests/bench/analysis/test_*.py", REPORTS),
    "src/offload/documents/comparisons.py": (REPORTS,),
    "src/offload/documents/[nrt]*.py": (REPORTS,),
    "src/offload/cli/fab.py": ("tests/cli/test_spelling*.py",),
    **{
        f"pipepool/src/pipepool/{name}.py": tuple(
            f"pipepool/tests/test_{tests}.py"
            for tests in ("scheduler*", "pool", "faults", "executor")
        )
        for name in POOL
    },
}
_stamps = itertools.count(1)


@dataclass
class Mutant:
    """A change at one place in a file, and its outcome."""

    path: str
    line: int
    operator: str
    occurrence: int
    before: str = ""
    after: str = ""
    killed_by: str | None = None
    seconds: float = 0.0

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests of its area."""
        return next(tests for area, tests in AREAS.items() if Path(self.path).match(area))


def places() -> list[list[Mutant]]:
    """Return the possible mutants of each place, without annotations, which are not evaluated."""
    operators = {
        name: plugins.get_operator(name)()
        for name in sorted(plugins.operator_names())
        if not any(word in name for word in EXCLUDED)
    }
    found: dict[tuple[str, int, int], list[Mutant]] = {}
    seen: set[Path] = set()
    for pattern in AREAS:
        for file in sorted(set(ROOT.glob(pattern)) - seen):
            seen.add(file)
            path, source = str(file.relative_to(ROOT)), file.read_text()
            nodes, skipped = list(ast_nodes(get_ast(source))), _annotations(source)
            for name, operator in operators.items():
                starts = [p[0] for node in nodes for p in operator.mutation_positions(node)]
                for occurrence, (line, column) in enumerate(starts):
                    if not any(first <= (line, column) < last for first, last in skipped):
                        mutant = Mutant(path, line, name, occurrence)
                        found.setdefault((path, line, column), []).append(mutant)
    return [found[place] for place in sorted(found)]


def _annotations(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    nodes = list(ast.walk(ast.parse(source)))
    inner = [getattr(n, name, None) for n in nodes for name in ("annotation", "returns")]
    return [
        ((n.lineno, n.col_offset), (n.end_lineno or 0, n.end_col_offset or 0)) for n in inner if n
    ]


def run_all(mutants: list[Mutant], results: Path, jobs: int) -> None:
    """Test mutants in `jobs` concurrent copies of the project; append the outcomes to `results`."""
    ignored = shutil.ignore_patterns(".git", ".venv", ".data", ".pythons", ".*_cache")
    copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, results.open("a") as file:
        for number in range(jobs):
            copies.put(shutil.copytree(ROOT, Path(folder, str(number)), ignore=ignored))
        for tests in sorted({mutant.tests for mutant in mutants}):
            if failed := _failure(Path(folder, "0"), tests):
                sys.exit(f"{failed} fails without a mutation")

        def tested(mutant: Mutant) -> Mutant:
            copy = copies.get()
            _test(mutant, copy)
            copies.put(copy)
            return mutant

        with ThreadPool(jobs) as pool:
            for number, mutant in enumerate(pool.imap_unordered(tested, mutants), start=1):
                file.write(json.dumps(asdict(mutant)) + "\n")
                file.flush()
                print(f"{number} of {len(mutants)}: {_shown(mutant)}", flush=True)


STALE = "nothing: its line no longer exists"


def _test(mutant: Mutant, copy: Path) -> None:
    path = copy / mutant.path
    source = path.read_text()
    if (changed := _changed(source, mutant)) is None:
        mutant.killed_by = STALE
        return
    started = time.monotonic()
    try:
        path.write_text(changed)
        stamp = next(_stamps)
        os.utime(path, (stamp, stamp))  # another time stamp invalidates the .pyc file
        mutant.killed_by = _failure(copy, mutant.tests)
    finally:
        path.write_text(source)
    mutant.seconds = round(time.monotonic() - started, 1)


def _changed(source: str, mutant: Mutant) -> str | None:
    """Return the changed source; a mutant of an earlier run is found by the text of its line."""
    operator = plugins.get_operator(mutant.operator)()
    is_new = not mutant.before
    for occurrence in itertools.count(mutant.occurrence if is_new else 0):
        try:
            changed = mutate_code(source, operator, occurrence)
        except AttributeError:  # an exception such as errors.UserError, which it cannot replace
            continue
        if changed is None:
            return None
        pairs = zip(source.splitlines(), changed.splitlines(), strict=False)
        before, after = next((a.strip(), b.strip()) for a, b in pairs if a != b)
        if is_new or (mutant.before, mutant.after) == (before, after):
            mutant.before, mutant.after = before, after
            return str(changed)
    return None


def _failure(copy: Path, tests: tuple[str, ...]) -> str | None:
    """Run tests; return the first that fails, or None. Retry once if no test is named."""
    files = [str(f) for pattern in tests for f in sorted(copy.glob(pattern))]
    options = ["-x", "-q", "-rfE", "-p", "no:cacheprovider", "-o", "timeout=30", "--reruns", "2"]
    # Tests of times fail when several jobs run. Those with servers take long; a pool needs them.
    without = "" if tests[0].startswith("pipepool/") else " and not server"
    options += ["-m", f"not timing and not slow{without}"]
    output = ""
    for _ in range(2):
        code, output = _run([sys.executable, "-m", "pytest", *options, *dict.fromkeys(files)], copy)
        if code == 0:
            return None
        for line in output.splitlines():
            if line.startswith(("FAILED ", "ERROR ")):
                return line.split()[1].removeprefix("tests/")
    return " ".join(output.splitlines()[-1:]) or f"exit code {code}"


def _run(command: list[str], folder: Path) -> tuple[int | None, str]:
    """Run a command with a timeout, and kill all processes that it started."""
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "MUTANT": mark, "PYTHONPATH": str(folder / "pipepool" / "src")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=TIMEOUT)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        return None, f"ERROR longer-than-{TIMEOUT:g}-s"
    finally:
        for each in psutil.process_iter(["environ"]):
            if (each.info["environ"] or {}).get("MUTANT") == mark:
                each.send_signal(signal.SIGKILL)
        process.wait(10)


def _shown(mutant: Mutant) -> str:
    where = f"{mutant.path}:{mutant.line}"
    if mutant.killed_by:
        return f"killed by {mutant.killed_by}: {where}"
    return f"SURVIVED {where}\n  - {mutant.before}\n  + {mutant.after}"


def report(mutants: list[Mutant]) -> None:
    """Print the survivors, and the score of each folder."""
    counts: dict[str, Counter[bool]] = defaultdict(Counter)
    for mutant in mutants:
        if mutant.killed_by == STALE:
            continue  # neither killed nor a survivor
        counts[str(Path(mutant.path).parent)][mutant.killed_by is not None] += 1
        if not mutant.killed_by:
            print(_shown(mutant))
    for folder, count in sorted(counts.items()):
        print(f"{folder}: {count[True]} of {count.total()} killed")
    killed = sum(count[True] for count in counts.values())
    total = sum(count.total() for count in counts.values())
    print(f"score: {killed} of {total} = {percent(killed / max(1, total))}")


def read(results: Path) -> list[Mutant]:
    """Read the last outcome of each mutant."""
    lines = [Mutant(**json.loads(line)) for line in results.read_text().splitlines()]
    return list({(m.path, m.operator, m.occurrence): m for m in lines}.values())


def main() -> None:
    """Test random mutants, or retest the survivors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="test the survivors again")
    options = parser.parse_args()
    options.results.parent.mkdir(parents=True, exist_ok=True)
    if options.again:
        mutants = [mutant for mutant in read(options.results) if not mutant.killed_by]
    else:
        options.results.unlink(missing_ok=True)
        drawn = random.Random(options.seed)  # noqa: S311 - no secret
        all_places = places()
        mutants = [drawn.choice(p) for p in drawn.sample(all_places, options.count)]
        print(f"{options.count} of {len(all_places)} places, one change each")
    run_all(mutants, options.results, options.jobs)
    report(read(options.results))


if __name__ == "__main__":
    main()
