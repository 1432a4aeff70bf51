"""The claims of suites, each judged by the newest run of its suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from offload.errors import UsageError
from offload.registry import catalog

if TYPE_CHECKING:
    from offload.bench.claims.evaluate import ClaimVerdict
    from offload.bench.records.record import Record
    from offload.bench.records.runs import Run
    from offload.reports.claims import capacity_checks

KINDS = ("CLAIMS", "MAJORITIES", "AVAILABILITIES", "AUDITS")


def evaluate_suites(
    suites: Sequence[str], run: str
) -> tuple[list[ClaimVerdict], list[capacity_checks.Line], list[str]]:
    """Judge all claims and audits of suites; give them, the gates, and what each was judged by."""
    from offload.reports.claims import capacity_checks

    found: list[ClaimVerdict] = []
    passed: list[capacity_checks.Line] = []
    sources: list[str] = []
    for suite in suites:
        by, source = _select_run(suite, run)
        records = None if by is None else by.records
        sources.append(f"{suite}: {source}")
        found += evaluate_suite(suite, records, None if by is None else by.folder.name)
        passed += capacity_checks.lines(suite, _suite_items(suite, "CLAIMS"), records or ())
    return found, passed, sources


def evaluate_suite(
    suite: str, records: Sequence[Record] | None, run: str | None = None
) -> list[ClaimVerdict]:
    """Judge a suite's claims by its records in one run, None without a run, and its audits."""
    from offload.bench.claims import audit, availability, evaluate, majorities

    cases = _suite_items(suite, "CASES")
    found = [
        evaluate.evaluate_claim(suite, claim, records, cases)
        for claim in _suite_items(suite, "CLAIMS")
    ]
    found += [
        majorities.evaluate_majority(suite, one, found) for one in _suite_items(suite, "MAJORITIES")
    ]
    found += [
        availability.evaluate_availability(suite, one, records)
        for one in _suite_items(suite, "AVAILABILITIES")
    ]
    found = [replace(one, run=run) for one in found]
    return found + [audit.audit_figures(suite, one) for one in _suite_items(suite, "AUDITS")]


def published_claims(suites: Sequence[str]) -> list[tuple[str, Any]]:
    """Give all that is claimed, each with its suite."""
    return [(suite, one) for suite in suites for kind in KINDS for one in _suite_items(suite, kind)]


def _suite_items(suite: str, what: str) -> Sequence[Any]:
    """Give a suite's CASES, or what it has of KINDS, which may be nothing."""
    from offload.suites import _module

    found: Sequence[Any] = getattr(_module.load(suite), what, ())
    return found


def select_suites(suite: str, run: str) -> list[str]:
    """Name the suites to judge, one or all, or all of a run; raise UsageError when it has none."""
    from offload.bench.records import journal

    known = measured_suites(journal.read(journal.named(run))) if run else [*catalog.suites()]
    asked = [catalog.find_suite(suite).name] if suite else known
    if found := [name for name in asked if name in known]:
        return found
    raise UsageError(f"{run} did not measure {suite or 'a suite'}: leave run= out for the newest")


def measured_suites(records: Sequence[Record]) -> list[str]:
    """Name the suites that a run measured, in its order."""
    return list(dict.fromkeys(record.suite for record in records if record.suite))


def _select_run(suite: str, run: str) -> tuple[Run | None, str]:
    """Give the run to judge a suite by, the one that is named or its newest, if any, in words."""
    from offload.bench.records import journal, runs

    found: Run | None
    lacks: list[str] = []
    if run:
        found = runs.read(journal.named(run), suite)
    else:
        found, lacks = runs.newest_of(suite)
    if found is None:
        return None, f"not measured here yet: fab run_suite:{suite},quick=yes"
    own, name = found.records, found.folder.name
    if not own:
        return found, f"not in {name}: fab run_suite:{suite},quick=yes"
    quick = ", quick" if own[-1].quick else ""
    passed = f" ({'; '.join(lacks)})" if lacks else ""
    return found, f"{name}{quick}, {own[-1].utc[:16].replace('T', ' ')} UTC{passed}"
