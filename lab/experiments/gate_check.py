"""Check how often the gate of fab compare_runs is red, with and without a loss.

Arguments of python -m lab gate_check:

(none)          60 A/A gates (a case against itself), 30 gates with a loss of 12 % and 10 with a
                loss of 5 %: 6 hours on 2 cores
--gates 6       fewer gates: 6, 3 and 1
--only AA       only gates of this kind: AA, 12 or 5
--gates 0       measure nothing; check the finished gates
--file FILE     store the gates in FILE instead of lab/data/gates.jsonl

Each gate allows a loss of 5 % and has a budget of 10 minutes. A finished gate is a line of
lab/data/gates.jsonl, and is not measured again, also on other machines. The records of an
unfinished one are in results/gate_check-KIND-NUMBER. To resume after an interruption, run the same
command again. In addition, 300 gates are resampled from the rounds of the A/A gates.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from lab.experiments import gate_results
from lab.experiments.gate_results import BUDGET, KINDS, LIMIT, FinishedGate, Kind
from lab.method import method_verdicts
from offload.engine import journal
from offload.engine import run as running
from offload.engine.plan import measured_times
from offload.errors import GateError, StorageError, UndecidedError
from offload.registry import catalog, places
from offload.studies.gate import result as gates
from offload.studies.gate.rule import Gate, GateTerms
from offload.suites import Case
from scripts.script import ROOT, run

GATES = 60  # gates of a case against itself
USERS = 8  # they keep all 4 workers busy
TASKS = ("sleep_short_sync", "network_sync_local", "count_sync")
STEPS = 400_000  # loop steps: about 20 ms
TASK = """
STEPS = {steps}

def quote():
    total = 0
    for step in range(STEPS):
        total += step & 7
    return b"counted" if total else b""
"""
PARTS = ("src", "servers", "tasks", "pipepool/src")


def main(arguments: list[str]) -> int:
    """Measure, and print a line for each requirement.

    Return 1 if one is not met, or 7 if one is unknown because there are too few gates.
    """
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gates", type=int, default=GATES, help="number of A/A gates")
    parser.add_argument("--only", choices=[kind.name for kind in KINDS], help="only this kind")
    parser.add_argument("--file", type=Path, default=gate_results.FILE, help="stored gates")
    options = parser.parse_args(arguments)
    kinds = [kind for kind in KINDS if options.only in (None, kind.name)]
    finished = {(found.kind, found.number): found for found in gate_results.load(options.file)}
    for kind in kinds:
        count = round(options.gates * kind.share)
        for number in range(1, count + 1):
            if (kind.name, number) not in finished:
                finished[kind.name, number] = measured = measure(kind, number)
                gate_results.append(measured, options.file)
            text = finished[kind.name, number].text()
            print(f"{kind.title()}, {number} of {count}: {text}", flush=True)
    wanted = {kind.name for kind in kinds}
    measured_gates = [found for found in finished.values() if found.kind in wanted]
    results = [*gate_results.missing(kinds, measured_gates), *gate_results.check(measured_gates)]
    print(method_verdicts.text(results))
    passed = [result.passed for result in results if result.is_required]
    if False in passed:
        return GateError.exit_code
    return UndecidedError.exit_code if None in passed else 0


def measure(kind: Kind, number: int) -> FinishedGate:
    """Measure a gate, or continue it; raise StorageError if another version started it."""
    folder = journal.RESULTS / f"gate_check-{kind.name}-{number:03}"
    with change_to_gate_folder(kind) as other:
        terms = GateTerms(LIMIT, against=str(other))
        if not (folder / journal.RUN_FILE).exists():
            folder.mkdir(parents=True, exist_ok=True)
            journal.save_plan(gates.gate_plan([case_of(kind, number)], terms, BUDGET), folder)
        planned = journal.load_plan(folder)
        if not isinstance(planned.rule, Gate) or planned.rule.gate.against != terms.against:
            what = f"{folder} was started by another version of this project"
            raise StorageError(what, "remove it")
        for _ in running.run(planned, folder):
            pass
    records = journal.read(folder)
    seconds = sum(measured_times(planned.blocks, records).values())
    return gate_results.finish_gate(kind, number, gates.evaluate(planned, records, folder), seconds)


def case_of(kind: Kind, number: int) -> Case:
    """Return the case of a gate: one of TASKS, or the seeded function in the current folder."""
    if kind.loss:
        return Case("threads", catalog.find_task("quote.py:quote").name, users=USERS)
    return Case("threads", TASKS[number % len(TASKS)], users=USERS)


@contextlib.contextmanager
def change_to_gate_folder(kind: Kind) -> Iterator[Path]:
    """Change to the folder in which a gate is started; yield the folder of the other side.

    Without a loss, the other side is a copy of this checkout. With a loss, both folders have a
    function, which has fewer steps in the baseline.
    """
    base = places.cache() / "gate_check"
    if not kind.loss:
        with contextlib.chdir(ROOT):
            yield copy_checkout(base)
        return
    now, before = (base / kind.name / side for side in ("now", "before"))
    for folder, steps in ((now, STEPS), (before, round(STEPS * (1 - kind.loss)))):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "quote.py").write_text(TASK.format(steps=steps))
    with contextlib.chdir(now):
        yield before


def copy_checkout(base: Path) -> Path:
    """Return a copy of this checkout; each version is copied once."""
    files = [path for part in PARTS for path in (ROOT / part).rglob("*.py")]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files)))
    copy, new = (base / f"{word}-{digest.hexdigest()[:8]}" for word in ("checkout", "new"))
    if not copy.exists():
        shutil.rmtree(new, ignore_errors=True)
        ignored = shutil.ignore_patterns("__pycache__")
        for part in PARTS:
            shutil.copytree(ROOT / part, new / part, symlinks=True, ignore=ignored)
        new.rename(copy)
    return copy


if __name__ == "__main__":
    run(main)
