"""The claims of suites, each judged by the newest run of its suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from offload.errors import UsageError
from offload.registry import catalog

if TYPE_CHECKING:
    from offload.bench.claims.evaluate import Judged
    from offload.bench.records.record import Record
    from offload.bench.records.runs import Run
    from offload.reports.claims import capacity_checks

KINDS = ("CLAIMS", "MAJORITIES", "AVAILABILITIES", "AUDITS")


def judged(
    suites: Sequence[str], run: str
) -> tuple[list[Judged], list[capacity_checks.Line], list[str]]:
    """Judge all claims and audits of suites; give them, the gates, and what each was judged by."""
    from offload.reports.claims import capacity_checks

    found: list[Judged] = []
    passed: list[capacity_checks.Line] = []
    sources: list[str] = []
    for suite in suites:
        by, source = _by(suite, run)
        records = None if by is None else by.records
        sources.append(f"{suite}: {source}")
        found += of_suite(suite, records, None if by is None else by.folder.name)
        passed += capacity_checks.lines(suite, _of(suite, "CLAIMS"), records or ())
    return found, passed, sources


def of_suite(suite: str, records: Sequence[Record] | None, run: str | None = None) -> list[Judged]:
    """Judge a suite's claims by its records in one run, None without a run, and its audits."""
    from offload.bench.claims import audit, availability, majorities
    from offload.bench.claims import evaluate as bench_claims

    cases = _of(suite, "CASES")
    found = [bench_claims.judge(suite, claim, records, cases) for claim in _of(suite, "CLAIMS")]
    found += [majorities.judge(suite, one, found) for one in _of(suite, "MAJORITIES")]
    found += [availability.judge(suite, one, records) for one in _of(suite, "AVAILABILITIES")]
    found = [replace(one, run=run) for one in found]
    return found + [audit.judge(suite, one) for one in _of(suite, "AUDITS")]


def said(suites: Sequence[str]) -> list[tuple[str, Any]]:
    """Give all that is claimed, each with its suite."""
    return [(suite, one) for suite in suites for kind in KINDS for one in _of(suite, kind)]


def _of(suite: str, what: str) -> Sequence[Any]:
    """Give a suite's CASES, or what it has of KINDS, which may be nothing."""
    from offload.suites import _module

    found: Sequence[Any] = getattr(_module.load(suite), what, ())
    return found


def suites(suite: str, run: str) -> list[str]:
    """Name the suites to judge, one or all, or all of a run; raise UsageError when it has none."""
    from offload.bench.records import journal

    known = suites_of(journal.read(journal.named(run))) if run else [*catalog.suites()]
    asked = [catalog.find_suite(suite).name] if suite else known
    if found := [name for name in asked if name in known]:
        return found
    raise UsageError(f"{run} did not measure {suite or 'a suite'}: leave run= out for the newest")


def suites_of(records: Sequence[Record]) -> list[str]:
    """Name the suites that a run measured, in its order."""
    return list(dict.fromkeys(record.trial.suite for record in records if record.trial.suite))


def _by(suite: str, run: str) -> tuple[Run | None, str]:
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
    quick = ", quick" if own[-1].trial.quick else ""
    passed = f" ({'; '.join(lacks)})" if lacks else ""
    return found, f"{name}{quick}, {own[-1].trial.utc[:16].replace('T', ' ')} UTC{passed}"
