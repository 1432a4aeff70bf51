"""Evaluate the claims of suites by the newest run of each suite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from offload.errors import UsageError
from offload.registry import catalog

if TYPE_CHECKING:
    from offload.bench.claims.evaluate import ClaimVerdict
    from offload.engine.journal import Run
    from offload.engine.record import Record
    from offload.reports.claims import capacity_checks


def evaluate_suites(
    suites: Sequence[str], run: str
) -> tuple[list[ClaimVerdict], list[capacity_checks.Line], list[str]]:
    """Evaluate all claims of suites; return verdicts, capacity checks and the run of each suite."""
    from offload.bench.claims import suite_verdicts
    from offload.reports.claims import capacity_checks

    found: list[ClaimVerdict] = []
    checks: list[capacity_checks.Line] = []
    sources: list[str] = []
    for suite in suites:
        selected, source = _select_run(suite, run)
        records = None if selected is None else selected.records
        sources.append(f"{suite}: {source}")
        name = None if selected is None else selected.folder.name
        found += suite_verdicts.evaluate_suite(suite, records, name)
        checks += capacity_checks.lines(suite, suite_verdicts.items(suite, "CLAIMS"), records or ())
    return found, checks, sources


def select_suites(suite: str, run: str) -> list[str]:
    """Return the suites to evaluate: one, all, or those of a run; raise UsageError if none."""
    from offload.engine import journal

    known = [*catalog.suites()]
    if run:
        known = measured_suites(journal.read_planned(journal.named(run)))
    requested = [catalog.find_suite(suite).name] if suite else known
    if found := [name for name in requested if name in known]:
        return found
    raise UsageError(f"{run} did not measure {suite or 'a suite'}", "omit run= for the newest")


def measured_suites(records: Sequence[Record]) -> list[str]:
    """Return the suites that a run measured, in its order."""
    return list(dict.fromkeys(record.trial.suite for record in records if record.trial.suite))


def _select_run(suite: str, run: str) -> tuple[Run | None, str]:
    """Return the named or the newest run of a suite (None: no run), and its description."""
    from offload.engine import journal

    found: Run | None
    missing: list[str] = []
    if run:
        found = journal.read_suite_run(journal.named(run), suite)
    else:
        found, missing = journal.newest_of_suite(suite)
    if found is None:
        return None, f"not measured here yet: offload run_suite {suite} quick=yes"
    own, name = found.records, found.folder.name
    if not own:
        return found, f"not in {name}: offload run_suite {suite} quick=yes"
    quick = ", quick" if own[-1].trial.quick else ""
    details = f" ({'; '.join(missing)})" if missing else ""
    return found, f"{name}{quick}, {own[-1].trial.utc[:16].replace('T', ' ')} UTC{details}"
