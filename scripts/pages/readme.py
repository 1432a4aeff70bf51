"""Update the generated parts of README.rst, docs/ and lab/ from the committed records.

`python -m scripts.pages.readme` writes the parts of pages between two markers, and
docs/effects.svg. With --check it only compares.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab import DATA
from lab.experiments import gate_results
from lab.faults import faults_table, lab
from lab.method import method_verdicts
from lab.soak import soak_file, soak_table
from offload.documents import comparisons, html_charts
from offload.documents.comparisons import Effect
from offload.documents.rows import conditions, measured_where, memory_text, rows
from offload.documents.text import LITERAL_INDENT, WIDTH, listing, literal, render
from offload.engine import claim_evaluation, decisions, host, journal
from offload.engine.claim_evaluation import ClaimVerdict
from offload.errors import GateError
from offload.registry import catalog
from offload.studies.advise import answer, study
from offload.studies.suite import claims as suite_claims
from offload.suites import tornado
from scripts.pages import claims_by_source, record_fields, reference
from scripts.pages.committed import RESULTS, RUN, gil_effects
from scripts.pages.table import between
from scripts.script import ROOT, run

AWAITED = "loop, split"  # name of a claim
SLEEP, PARSE, SHORT = "sleep_sync", "network_https_cpu_bound_sync", "simplehash_sync"


def pages() -> Mapping[Path, str]:
    """Return the current text of every page that has generated parts."""
    found = gil_effects()
    evaluated = _claims()
    tornado_verdicts = {one.claim: one for _, one in evaluated["tornado"]}
    docs, own = ROOT / "docs", ROOT / "lab"
    return {
        ROOT / "README.rst": _with(
            ROOT / "README.rst",
            advice=_advice,
            answer=lambda: _answer(found),
            strategies=lambda: _strategies(found, tornado_verdicts),
        ),
        docs / "claims.rst": _with(
            docs / "claims.rst", claims=lambda: claims_by_source.rst(evaluated, _conditions())
        ),
        docs / "reference.rst": _with(
            docs / "reference.rst",
            commands=reference.commands,
            servers=reference.servers,
            tasks=reference.tasks,
            drivers=reference.drivers,
            suites=reference.suites,
        ),
        docs / "record.rst": _with(docs / "record.rst", record=record_fields.rst),
        docs / "ci.rst": _with(docs / "ci.rst", gates=_gates),
        docs / "gil.rst": _with(docs / "gil.rst", servers=_on_and_off),
        docs / "reliability.rst": _with(docs / "reliability.rst", tested=_tested),
        docs / "effects.svg": html_charts.effects_svg(found),
        own / "corpus.rst": _with(own / "corpus.rst", corpus=reference.corpus),
        own / "reliability.rst": _with(own / "reliability.rst", soak=_soak, faults=_faults),
    }


def _with(page: Path, **parts: Callable[[], str]) -> str:
    text = page.read_text()
    for mark, part in parts.items():
        text = between(text, mark, [part()])
    return text


def _answer(found: Sequence[Effect]) -> str:
    """Return the GIL effects as offload quick prints them, and the machine of their run."""
    published = {case.task for case in tornado.PUBLISHED}
    own = [effect for effect in found if effect.threads.first.case.task in published]
    width = WIDTH - LITERAL_INDENT
    lines = [
        part
        for line in comparisons.effects_table(own).splitlines()
        for part in textwrap.wrap(line, width, subsequent_indent="  ", drop_whitespace=False)
    ]
    measured = [row for effect in own for row in (effect.threads, effect.processes)]
    return f"{literal(chr(10).join(lines))}\n\n{measured_where(measured)}"


def _advice() -> str:
    """Return the answer of offload advise for the example function, from its run."""
    folder = RESULTS / "example-advise"
    found = study.load(folder, journal.load_plan(folder), journal.read(folder))
    _require(found.disturbed is None, folder.name)
    width = WIDTH - LITERAL_INDENT
    return literal(render(answer.document(found), width))


def _on_and_off() -> str:
    """Return the servers of a free-threaded build with the GIL on and off, from their run."""
    folder = RESULTS / "example-free_threading"
    if not folder.exists():
        return "Not measured yet: ``offload run_suite free_threading quick=yes``."
    measured = rows(journal.read(folder))
    found = comparisons.on_and_off_pairs(measured)
    return f"{literal(comparisons.on_and_off_table(found))}\n\n{measured_where(measured)}"


def _gates() -> str:
    """Return the checks of the stored gates, and their machines."""
    finished = gate_results.load()
    if not finished:
        return "No gate is stored yet."
    table = literal(method_verdicts.text(gate_results.check(finished)))
    days = sorted(found.utc[:10] for found in finished)
    where = "; ".join(sorted({found.machine for found in finished}))
    return f"{table}\n\nMeasured {' to '.join(dict.fromkeys((days[0], days[-1])))} on {where}."


def _faults() -> str:
    """Return the findings of the fault lab, and their machine."""
    size, environment, found = lab.load(DATA / lab.FILE)
    where = f"Size: {size}. Measured on {host.sentence(environment)}."
    table = literal(faults_table.render(found))
    return f"{faults_table.summary(found)}. {where}\n\n{table}"


def _tested() -> str:
    """Return which servers kept each promise of the fault lab and of the soak."""
    _, environment, found = lab.load(DATA / lab.FILE)
    planned, _, soaked = soak_file.load(DATA / soak_file.FILE)
    every = {each.server for each in soaked}
    items = []
    for name in dict.fromkeys(each.row for each in found if not each.server.startswith("bench")):
        own = [each for each in found if each.row == name and each.promised]
        kept = [each.server for each in own if each.is_kept]
        others = [each.server for each in own if each.is_kept is False]
        by = "all" if len({*kept} & every) == len(every) else ", ".join(kept)
        broken = f" Broken by {', '.join(others)}." if others else ""
        row = lab.ROWS[name]
        items.append(f"*{row.fault}*: {row.promise}. Kept by {by}.{broken}")
    flat = soak_table.summary(soaked)
    items.append(f"*{planned.seconds / 60:g} minutes under load and faults*: {flat}.")
    return f"{listing(items)}\n\nMeasured on {host.sentence(environment)}."


def _soak() -> str:
    """Return the findings of a soak, and their machine."""
    planned, environment, found = soak_file.load(DATA / soak_file.FILE)
    where = f"{planned.seconds / 60:g} minutes. Measured on {host.sentence(environment)}."
    table = literal(soak_table.render(found))
    return f"{soak_table.summary(found)}. {where}\n\n{table}"


def _strategies(found: Sequence[Effect], verdicts: Mapping[str, ClaimVerdict]) -> str:
    """Return the recommended strategies, each with a reason in figures of the run.

    Raise GateError if the figures do not support a reason.
    """
    by_task = {effect.threads.first.case.task: effect for effect in found}
    sleep, parse, short = (_effect(by_task, task) for task in (SLEEP, PARSE, SHORT))
    awaited = verdicts[AWAITED]
    _require((awaited.low or 0.0) > 1, AWAITED)
    _require(sleep.verdict.outcome not in (decisions.FASTER, decisions.SLOWER), SLEEP)
    _require(parse.verdict.outcome == decisions.FASTER, PARSE)
    _require(short.verdict.outcome == decisions.SLOWER, SHORT)
    known = [row.memory_pss_mib for row in (sleep.threads, sleep.processes)]
    memory = (
        "" if None in known else ", but use {1} instead of {0}".format(*map(memory_text, known))
    )
    return listing(
        [
            "The task awaits: ``loop``. One thread serves all users. An awaited sleep has "
            f"{awaited.here:.1f} times the rate of a sleep that blocks the loop.",
            "The task only waits, in blocking calls: ``threads``. Processes have the same rate "
            f"(``{SLEEP}``: {sleep.ratio:.2f}x){memory}.",
            "The task computes in Python: ``processes``. Threads share one GIL, each process has "
            f"its own (``{PARSE}``: {parse.ratio:.2f}x).",
            "The task takes microseconds: ``loop``. Passing it to a process takes longer than the "
            f"task itself (``{SHORT}``: processes have {short.ratio:.2f} times the rate of "
            "threads).",
        ]
    )


def _effect(by_task: Mapping[str, Effect], task: str) -> Effect:
    _require(task in by_task, task)
    return by_task[task]


def _require(is_supported: bool, what: str) -> None:
    if not is_supported:
        reason = f"the figures of {what} in results/ do not support the README's advice"
        raise GateError(reason, "correct _strategies in scripts/pages/readme.py")


def _claims() -> Mapping[str, Sequence[claims_by_source.Evaluated]]:
    """Evaluate each suite from its committed run; a suite without a run has audits only."""
    found = {}
    for folder in sorted(RESULTS.glob("example-*"), key=lambda each: each.name != RUN):
        records = journal.read(folder)
        for suite in {*suite_claims.measured_suites(records)} & catalog.suites().keys():
            verdicts = claim_evaluation.evaluate_suite(suite, records, folder.name)
            if not verdicts:  # the suite has no published claims
                continue
            claims = [claim for _, claim in claim_evaluation.published_claims([suite])]
            found[suite] = [*zip(claims, verdicts, strict=True)]
    return found


def _conditions() -> dict[str, str]:
    """Return when, where and with which tools each committed run was measured, by its name."""
    return {
        folder.name: conditions(rows(journal.read(folder))) for folder in RESULTS.glob("example-*")
    }


def main(arguments: list[str]) -> int | str:
    """Write the pages, or with --check report the outdated pages."""
    stale = []
    for page, text in pages().items():
        if not page.exists() or page.read_text() != text:
            stale.append(str(page.relative_to(ROOT)))
            if arguments != ["--check"]:
                page.write_text(text)
    if arguments == ["--check"] and stale:
        return f"{', '.join(stale)}: not up to date with the committed records: run make readme"
    return 0


if __name__ == "__main__":
    run(main)
