"""The command check_method: check this tool's statistics against a known truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lab.commands import command
from offload.cli.program import Exit
from offload.cli.runner import continue_run, start_run
from offload.errors import DisturbedError, GateError, RunError, UsageError
from offload.options import arguments

if TYPE_CHECKING:
    from offload.engine.plan import Plan
    from offload.engine.record import Record


@command
def check_method(blocks: str = "60", rounds: str = "", run: str = "") -> None:
    """Check this tool's statistics against a known truth, in an hour and a half.

    blocks  number of comparisons of a case with itself, each measured until it has a verdict; half
            as many compare two tasks that differ by 20 %; default: 60 (an hour), the minimum for a
            reliable check
    rounds  number of rounds of a single server, which are resampled; default: 300 (20 minutes)
    run     continue this run in results/, and check its records; its number of blocks stays the
            same, and rounds of a single server are added only with rounds=

    To continue an interrupted check, use run= or offload resume, then run=.
    """
    from lab.method import method_check
    from offload.engine import journal

    count = arguments.whole_number("blocks", blocks, 0, 10_000)
    wanted = rounds or ("0" if run else "300")
    alone = 0 if wanted == "0" else arguments.whole_number("rounds", wanted, 10, 10_000)
    if run:
        folder = journal.find_run(run)
        planned = journal.load_plan(folder)
        if planned.suite != method_check.SUITE:
            fix = f"use offload resume {folder.name}"
            raise UsageError(f"{folder.name} is a run of {planned.suite}, not of check_method", fix)
        continue_run(planned, folder)
    else:
        planned = method_check.blocks_plan(count)
        folder, _ = start_run(planned)
    try:
        method_check.measure_alone(folder, alone)
    except KeyboardInterrupt:
        hint = f"continue with python -m lab check_method run={folder.name} rounds={alone}"
        raise Exit(f"interrupted: {hint}", code=130) from None
    _print_checks(planned, folder, journal.read_planned(folder))


def _print_checks(plan: Plan, folder: Path, records: Sequence[Record]) -> None:
    from lab.method import method_check, method_verdicts

    results = method_check.check_blocks(plan, records) if plan.blocks else []
    if alone := method_check.alone(records):
        results += method_check.check_alone(alone)
    if not results:
        command = f"python -m lab check_method run={folder.name}"
        raise RunError(f"{folder} has no records", f"measure them by {command}")
    print(f"{method_verdicts.text(results)}\nrecords: {folder}")
    failed = [result for result in results if result.passed is not True]
    if failed and all(result.is_disturbed for result in failed):
        names = ", ".join(result.name for result in failed)
        raise DisturbedError(f"no verdict on {names}", "end the other processes and repeat it")
    if failed:
        raise GateError(f"checks failed: {', '.join(result.name for result in failed)}")
