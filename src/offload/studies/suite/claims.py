"""The command claims: the claims of suites, evaluated by the newest run of each suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from cyclopts import Parameter

from offload import options
from offload.errors import UsageError, records_of_others
from offload.registry import catalog
from offload.studies import Command, Runner

if TYPE_CHECKING:
    from offload.documents import claim_tables
    from offload.engine.claim_evaluation import ClaimVerdict
    from offload.engine.journal import Run
    from offload.engine.record import Record


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """Compare the claims of published benchmarks with the newest run of each suite.

    The terminal shows the suites that have been measured, or all before the first run. Verdicts on
    all suites are written to results/claims.rst, with the claims and their sources.

    Examples:
      offload claims tornado
      offload claims run=example
    """

    suite: options.ClaimsSuite = ""
    run: options.ClaimsRun = ""
    _: KW_ONLY
    format: options.Format = "text"


class Claims(Command[Options]):
    """Prints the verdicts on claims, and writes them to a page with the claims."""

    group = "Understand"
    options = Options

    def run(self, options: Options, runner: Runner) -> None:
        from offload.documents import claim_tables
        from offload.documents import claim_tables as report
        from offload.engine import claim_evaluation, journal

        suite, run = options.suite, options.run
        suites, all_of_them = select_suites(suite, run), select_suites("", run)
        with records_of_others(run or "the newest run"):
            found, checks, sources = evaluate_suites(suites, run)
        path = (journal.named(run) if run else journal.RESULTS) / "claims.rst"
        hint = f"claims and their sources: {path}"
        if suites == all_of_them:
            journal.check_writable()
            listed = claim_tables.sources_rst(claim_evaluation.published_claims(suites))
            document = report.rst(found, sources, claim_tables.table(checks), listed)
            journal.replace(path, document)
        else:
            hint = f"claims and their sources: offload claims writes them to {path}"
        example = f"example-{suite or 'tornado'}"
        if not any(verdict.run for verdict in found) and (journal.RESULTS / example).exists():
            hint += f"\noffload claims run={example} evaluates the committed run"
        if options.format == "json":
            print(report.as_json(found), end="")
            return
        measured = {verdict.suite for verdict in found if verdict.run}
        shown = [verdict for verdict in found if verdict.suite in measured] or found
        parts = [
            report.text(shown),
            claim_tables.table(checks),
            "\n".join([*sources, hint]),
        ]
        print("\n\n".join(part for part in parts if part))


def evaluate_suites(
    suites: Sequence[str], run: str
) -> tuple[list[ClaimVerdict], list[claim_tables.Line], list[str]]:
    """Evaluate all claims of suites; return verdicts, capacity checks and the run of each suite."""
    from offload.documents import claim_tables
    from offload.engine import claim_evaluation

    found: list[ClaimVerdict] = []
    checks: list[claim_tables.Line] = []
    sources: list[str] = []
    for suite in suites:
        selected, source = _select_run(suite, run)
        records = None if selected is None else selected.records
        sources.append(f"{suite}: {source}")
        name = None if selected is None else selected.folder.name
        found += claim_evaluation.evaluate_suite(suite, records, name)
        checks += claim_tables.lines(suite, claim_evaluation.items(suite, "CLAIMS"), records or ())
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
