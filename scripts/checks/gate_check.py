"""Check how often the gate of fab compare_runs is red, with and without a loss.

Arguments of python -m scripts.checks.gate_check:

(none)          60 A/A gates (a case against itself), 30 gates with a loss of 12 % and 10 with a
                loss of 5 %: 6 hours on 2 cores
--gates 6       fewer gates: 6, 3 and 1
--only AA       only gates of this kind: AA, 12 or 5
--gates 0       measure nothing; check the finished gates
--write FILE    also write each gate as a line of JSON

Each gate allows a loss of 5 % and has a budget of 10 minutes. Its records are stored in
results/gate_check-KIND-NUMBER. To resume after an interruption, run the same command again. In
addition, 300 gates are resampled from the rounds of the A/A gates.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from offload.bench.analysis.comparison import rate_of
from offload.bench.analysis.gate import GateTerms
from offload.bench.experiments import gate as gates
from offload.bench.experiments import run as running
from offload.bench.experiments.gate import GateResult
from offload.bench.experiments.method_check import CheckResult
from offload.bench.planning import plan_file, round_times, time_budget
from offload.bench.records import journal
from offload.bench.records.run_records import RunRecords, pairs_by_round
from offload.bench.stats import resampling, student_t
from offload.errors import StorageError
from offload.registry import places
from offload.reports.gate import sentences
from offload.reports.tables import method_verdicts
from offload.suites import Case, _case_syntax
from offload.units import percent
from scripts.script import ROOT, run

LIMIT, BUDGET = 0.05, 600.0  # the loss that a gate allows, a share; s of measuring
FOUND = 28 / 30  # share of the gates with a loss of 12 % that must be red
AT_LIMIT = 0.9  # share of the gates with a loss of 5 % whose interval must contain it
GATES, RESAMPLED = 60, 5  # gates of a case against itself; resampled ones for each of them
AT_LIMIT_TIMES = 5  # as many with a loss of exactly the limit, where 1 % are red
MIN_PAIRS = 20  # rounds of a case: resamples of fewer rounds do not follow a t distribution
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


@dataclass(frozen=True)
class Kind:
    """A kind of gates: A/A (`loss` 0), or with a seeded loss, as a share.

    `share` is their number divided by the number of gates of a case against itself.
    """

    name: str
    loss: float
    share: float

    def title(self) -> str:
        """Return a name for the table."""
        return f"a loss of {percent(self.loss)}" if self.loss else "A/A"


KINDS = (Kind("AA", 0.0, 1.0), Kind("12", 0.12, 0.5), Kind("5", 0.05, 1 / 6))


@dataclass(frozen=True)
class FinishedGate:
    """A measured gate; `seconds` is the duration of its measurement."""

    kind: Kind
    number: int
    result: GateResult
    seconds: float

    def text(self) -> str:
        """Return the outcome of its case as one line."""
        [case] = self.result.cases
        change = sentences.change(case.verdict.change)
        task = case.name.rpartition("/")[2]
        outcome = f"{case.verdict.outcome}, {task}: {change}"
        return f"{outcome}, {case.verdict.rounds} rounds, {self.seconds:.0f} s"

    def as_dict(self) -> dict[str, object]:
        """Return the figures of the gate as a dictionary."""
        [case] = self.result.cases
        change = case.verdict.change
        return {
            "kind": self.kind.name,
            "number": self.number,
            "case": case.name,
            "verdict": case.verdict.outcome,
            "ratio": change.value,
            "ratio_low": change.low if change.value is not None else None,
            "ratio_high": change.high if change.value is not None else None,
            "rounds": case.verdict.rounds,
            "seconds": round(self.seconds, 1),
        }


def main(arguments: list[str]) -> int:
    """Measure, and print a line for each requirement; return 1 if one is not met."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gates", type=int, default=GATES, help="number of A/A gates")
    parser.add_argument("--only", choices=[kind.name for kind in KINDS], help="only this kind")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write each gate as JSON")
    options = parser.parse_args(arguments)
    kinds = [kind for kind in KINDS if options.only in (None, kind.name)]
    for kind in kinds:
        count = round(options.gates * kind.share)
        for number in range(1, count + 1):
            found = measure(kind, number)
            print(f"{kind.title()}, {number} of {count}: {found.text()}", flush=True)
    finished = [found for kind in kinds for found in read(kind)]
    if options.write is not None:
        lines = (json.dumps(found.as_dict()) for found in finished)
        options.write.write_text("".join(f"{line}\n" for line in lines))
    results = check(finished)
    print(method_verdicts.text(results))
    return 0 if all(result.passed is not False for result in results) else 1


def measure(kind: Kind, number: int) -> FinishedGate:
    """Measure a gate or continue it, unless it is finished."""
    folder = journal.RESULTS / f"gate_check-{kind.name}-{number:03}"
    if is_finished(folder):
        return finish(kind, number, folder)
    with started(kind) as other:
        terms = GateTerms(LIMIT, against=str(other))
        if not (folder / plan_file.FILE).exists():
            folder.mkdir(parents=True, exist_ok=True)
            plan_file.save(gates.gate_plan([case_of(kind, number)], terms, BUDGET), folder)
        planned = plan_file.load(folder)
        if planned.gate is None or planned.gate.against != terms.against:
            what = f"{folder} was started by another version of this project"
            raise StorageError(what, "remove it")
        for _ in running.run(planned, folder):
            pass
    return finish(kind, number, folder)


def is_finished(folder: Path) -> bool:
    """Whether a gate was measured to its end."""
    if not (folder / journal.FILE).exists():
        return False
    return not time_budget.has_more(plan_file.load(folder), journal.read(folder))


def read(kind: Kind) -> Iterator[FinishedGate]:
    """Yield the finished gates of a kind."""
    for folder in sorted(journal.RESULTS.glob(f"gate_check-{kind.name}-*")):
        if is_finished(folder):
            yield finish(kind, int(folder.name.rpartition("-")[2]), folder)


def finish(kind: Kind, number: int, folder: Path) -> FinishedGate:
    """Evaluate a gate from its records."""
    planned, records = plan_file.load(folder), journal.read(folder)
    seconds = sum(round_times.measured(planned, records).values())
    return FinishedGate(kind, number, gates.evaluate(planned, records, folder), seconds)


def case_of(kind: Kind, number: int) -> Case:
    """Return the case of a gate: one of TASKS, or the seeded function in the current folder."""
    if kind.loss:
        case = _case_syntax.case("3/quote.py:quote")
        return Case(case.server, case.task, users=USERS)
    return Case("threads", TASKS[number % len(TASKS)], users=USERS)


@contextlib.contextmanager
def started(kind: Kind) -> Iterator[Path]:
    """Change to the folder in which a gate is started; yield the folder of the other side.

    Without a loss, the other side is a copy of this checkout. With a loss, both folders have a
    function, which has fewer steps in the baseline.
    """
    base = places.cache() / "gate_check"
    if not kind.loss:
        with contextlib.chdir(ROOT):
            yield copied(base)
        return
    now, before = (base / kind.name / side for side in ("now", "before"))
    for folder, steps in ((now, STEPS), (before, round(STEPS * (1 - kind.loss)))):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "quote.py").write_text(TASK.format(steps=steps))
    with contextlib.chdir(now):
        yield before


def copied(base: Path) -> Path:
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


def check(finished: Sequence[FinishedGate]) -> list[CheckResult]:
    """Return the result of each requirement."""
    results = []
    for kind in KINDS:
        own = [found for found in finished if found.kind == kind]
        if own and kind.loss == 0:
            results += [*check_same(own), *check_resampled(own)]
        elif own:
            results += check_lost(kind, own)
    return results


def check_same(own: Sequence[FinishedGate]) -> list[CheckResult]:
    """Check the A/A gates."""
    red = sum(found.result.outcome == gates.RED for found in own)
    green = sum(found.result.outcome == gates.PASSED for found in own)
    required = f"at most {percent(resampling.MAX_RED)}"
    return [
        CheckResult(
            "A/A, red", with_interval(red, len(own)), required, red <= resampling.MAX_RED * len(own)
        ),
        CheckResult("A/A, green", with_interval(green, len(own)), "as many as possible", None),
    ]


def check_resampled(own: Sequence[FinishedGate]) -> list[CheckResult]:
    """Check gates resampled from the rounds of the A/A gates."""
    pools: dict[str, list[tuple[float, float]]] = {}
    for found in own:
        one, other = (RunRecords(found.result.records).at(place).windows() for place in (0, 1))
        [case] = found.result.cases
        pools.setdefault(case.name, []).extend(pairs_by_round(one, other, rate_of))
    known = [pairs for pairs in pools.values() if len(pairs) >= MIN_PAIRS]
    if not known:
        why = f"no case has {MIN_PAIRS} rounds"
        return [CheckResult("resampled", why, "measure more gates", None)]
    count, rng = RESAMPLED * len(own), random.Random(0)  # noqa: S311 - no secret
    results = []
    for cases in (1, 10):
        for loss in (0.0, LIMIT):
            trials = AT_LIMIT_TIMES * count if loss else count
            tested = resampling.gate_test(known, loss, LIMIT, trials, cases, rng)
            name = f"resampled, {cases} case{'s' if cases > 1 else ''}, loss {percent(loss)}"
            required = "an interval that contains 1 % or less"
            found = with_interval(tested.hits, trials)
            results.append(CheckResult(name, found, required, tested.passed))
    return results


def check_lost(kind: Kind, own: Sequence[FinishedGate]) -> list[CheckResult]:
    """Check the gates with a seeded loss."""
    red = sum(found.result.outcome == gates.RED for found in own)
    name = kind.title()
    if kind.loss <= LIMIT:
        changes = [found.result.cases[0].verdict.change for found in own]
        containing = sum(change.low <= 1 - kind.loss <= change.high for change in changes)
        required = f"{percent(AT_LIMIT)} of intervals contain it"
        passed = containing >= AT_LIMIT * len(own)
        return [
            CheckResult(f"{name}, interval", with_interval(containing, len(own)), required, passed),
            CheckResult(f"{name}, red", with_interval(red, len(own)), "reported", None),
        ]
    longest = max(found.seconds for found in own)
    least = f"at least {percent(FOUND)}"
    return [
        CheckResult(f"{name}, red", with_interval(red, len(own)), least, red >= FOUND * len(own)),
        CheckResult(f"{name}, time", f"{longest:.0f} s", f"{BUDGET:.0f} s", longest <= BUDGET),
    ]


def with_interval(hits: int, trials: int) -> str:
    """Return a count, and its share as an exact binomial 95 % interval."""
    low, high = student_t.binomial_interval(hits, trials)
    return f"{hits} of {trials} ({percent(low, 1)} to {percent(high, 1)})"


if __name__ == "__main__":
    run(main)
