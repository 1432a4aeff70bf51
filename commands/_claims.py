"""The claims of suites, each judged by the newest run of its suite."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.claims import Judged
    from bench.record import Record


def judged(suites: Sequence[str], run: str) -> tuple[list[Judged], list[str]]:
    """Judge all claims and audits of suites; give them, and a line on what each was judged by."""
    from bench import audits
    from bench import claims as bench_claims

    found: list[Judged] = []
    sources: list[str] = []
    for suite in suites:
        module = importlib.import_module(f"suites.{suite}")
        records, source = _records(suite, run)
        sources.append(f"{suite}: {source}")
        found += [bench_claims.judge(suite, c, records) for c in getattr(module, "CLAIMS", ())]
        found += [audits.judge(suite, one) for one in getattr(module, "AUDITS", ())]
    return found, sources


def _records(suite: str, run: str) -> tuple[list[Record] | None, str]:
    """Give the records to judge a suite by, of the run that is named or of its newest, if any."""
    from bench import journal

    folder = journal.named(run) if run else journal.newest_of(suite)
    if folder is None:
        return None, f"not measured here yet: fab run_suite:{suite},quick=yes"
    own = [record for record in journal.read(folder) if record.suite == suite]
    if not own:
        return [], f"not in {folder.name}: fab run_suite:{suite},quick=yes"
    quick = ", quick" if own[-1].quick else ""
    return own, f"{folder.name}{quick}, {own[-1].utc[:16].replace('T', ' ')} UTC"
