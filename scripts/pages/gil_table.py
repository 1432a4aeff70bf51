"""Measure the cost of the GIL for tasks, and write docs/gil.rst; --check only compares.

`python -m scripts.pages.gil_table` measures all tasks, about 2 minutes each. With names of tasks it
measures only these, and takes the others from lab/data/gil.jsonl; `-` measures nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

from lab import DATA
from offload import upstream
from offload.cli import runner
from offload.documents.text import TableLine, literal, render_table
from offload.engine import host
from offload.engine.decisions import Verdict
from offload.engine.plan import comparison_plan
from offload.engine.server import find_interpreters
from offload.errors import UserError
from offload.registry import catalog
from offload.studies.gil import cost as gil_cost
from offload.studies.gil import document as cost_report
from offload.studies.gil.direct_calls import direct, speed_ups
from offload.studies.gil.figures import cost
from offload.suites import Case
from scripts.pages.committed import RUN, gil_effects, measured_where
from scripts.pages.table import main
from scripts.script import ROOT, run

TASKS = (
    "sleep_sync",
    "sha256_sync",
    "xml_lxml_sync",
    "file_sync",
    "network_https_sync",
    "network_sync_local",
    "network_https_cpu_bound_sync",
    "xml_etree_sync",
    "xml_feedparser_sync",
)
DOCUMENT, FIGURES = ROOT / "docs" / "gil.rst", DATA / "gil.jsonl"
WORKERS = 4
HEAD = ("Task", "h", "threads", "processes", "interpreters", "free-threaded")
MORE = ("rho", "hold", "gamma", "kappa", "switches", "loop lag", "C", "CPU/wall", "sigma")
Values = dict[str, Any]


def update_task(task: str) -> None:
    """Measure one task, and keep the figures of the others."""
    found = {**_figures(), task: _measure(task)}
    ordered = sorted(found.values(), key=lambda one: one["h"] or 0.0)
    FIGURES.write_text("".join(f"{json.dumps(one)}\n" for one in ordered))


def _figures() -> dict[str, Values]:
    lines = FIGURES.read_text().splitlines() if FIGURES.exists() else []
    return {one["task"]: one for one in map(json.loads, lines)}


def _measure(task: str) -> Values:
    """Measure one task, also in subinterpreters and in a free-threaded Python if available."""
    threads, processes = (
        Case(server, task, users=2 * WORKERS, settings={"workers": WORKERS})
        for server in ("threads", "processes")
    )
    print(task, file=sys.stderr)
    plan = comparison_plan("gil", threads, processes, is_quick=True)
    folder, records = runner.start_run(plan)
    measured = gil_cost.measure_direct(threads, WORKERS)
    found = gil_cost.evaluate(threads, processes, records, folder, measured)
    facts = cost_report.values(found)
    for flag in facts["flags"]:
        print(f"  warning: {flag}", file=sys.stderr)
    print(f"  records: {found.cases.folder}", file=sys.stderr)
    window = found.window
    wall_s, cpu_s = window.tasks.alone_s, window.tasks.alone_cpu_s
    here = [python.name for python in find_interpreters()]
    subinterpreters = [name for name in here if not name.endswith("t") and name >= "3.14"]
    free = [name for name in here if name.endswith("t")]
    return {
        **{key: facts[key] for key in facts if key not in ("interpreter", "follows")},
        "cpu_per_wall": cpu_s / wall_s if wall_s and cpu_s is not None else None,
        "interpreters": _elsewhere(task, "interpreters", subinterpreters),
        "free_threaded": _elsewhere(task, "threads", free),
        "machine": host.sentence({**host.environment(), **window.server.interpreter}),
        "utc": datetime.now(UTC).isoformat(timespec="minutes"),
    }


def _elsewhere(task: str, kind: str, names: list[str]) -> Values:
    """Return the speed-up in the newest of these Pythons, or the reason if it is unknown."""
    if not names:
        return {"why": "no such Python here"}
    name = names[0]
    print(f"  direct calls in {name}: {kind}", file=sys.stderr)
    with ExitStack() as stack:
        added = {}
        if "upstream" in catalog.find_task(task).needs:
            added = stack.enter_context(upstream.hold()).upstream.environment()
        try:
            running = stack.enter_context(direct(task, name, None, added))
            found = speed_ups(running, WORKERS, (kind,))[kind]
        except UserError as error:
            return {"python": name, "why": str(error).partition(":")[0]}
    return {"python": name, "s": found.ratio, "gil_enabled": found.gil_enabled}


def _lines() -> Iterator[str]:
    if not (found := [*_figures().values()]):
        yield "Not measured yet: run ``python -m scripts.pages.gil_table``."
        return
    committed = {one.threads.first.case.task: one.verdict for one in gil_effects()}
    found = [{**one, **_cost(committed.get(one["task"]))} for one in found]
    for head, line in ((HEAD, _speed_ups), (("Task", *MORE), _costs)):
        lines = [TableLine((one["task"], *line(one))) for one in found]
        yield literal(render_table(head, lines))
        yield ""
    for place in sorted({f"{one['utc'][:10]} on {one['machine']}" for one in found}):
        yield f"Measured {place}, {WORKERS} workers."
    shared = [f"``{one['task']}``" for one in found if one["task"] in committed]
    source = f"the ratios of the README (``results/{RUN}``)"
    yield f"C of {', '.join(shared)} is calculated from {source}, {measured_where()}"
    for kind in ("interpreters", "free_threaded"):
        for name in sorted({one[kind]["python"] for one in found if "python" in one[kind]}):
            yield f"Column {kind.replace('_', '-')}: Python {name}."
    for one in found:
        for kind in ("interpreters", "free_threaded"):
            if "python" in one[kind] and (why := one[kind].get("why")):
                yield f"``{one['task']}`` in {one[kind]['python']}: {why}."


def _cost(verdict: Verdict | None) -> Values:
    """Return C of a task, from its ratio in the committed run; empty without one."""
    if verdict is None or verdict.ratio is None:
        return {}
    ends = {"cost": verdict.ratio, "cost_low": verdict.low, "cost_high": verdict.high}
    return {name: None if ratio is None else cost(1.0, ratio) for name, ratio in ends.items()}


def _speed_ups(one: Values) -> Iterator[str]:
    yield _number(one["h"])
    yield from (_number(one[key], "x") for key in ("s_threads", "s_processes"))
    for kind in ("interpreters", "free_threaded"):
        mark = " GIL on" if kind == "free_threaded" and one[kind].get("gil_enabled") else ""
        missing = "cannot load" if "python" in one[kind] else "-"
        yield f"{_number(one[kind]['s'], 'x')}{mark}" if "s" in one[kind] else missing


def _costs(one: Values) -> Iterator[str]:
    yield _number(one["rho"])
    hold_s = one["hold_p75_s"]
    yield _number(None if hold_s is None else 1000 * hold_s, " ms", 1)
    yield _number(one["gamma"])
    yield _number(one["kappa"], "x")
    yield _number(one["switches"], digits=0)
    yield _number(one["loop_lag_p99_ms"], " ms", 1)
    low, high = one["cost_low"], one["cost_high"]
    yield _number(one["cost"]) + (f" ({low:.2f} to {high:.2f})" if low is not None else "")
    yield _number(one["cpu_per_wall"])
    # Serial share by Amdahl's law, from the threads' speed-up S = N / (1 + sigma (N - 1)).
    yield _number((WORKERS / one["s_threads"] - 1) / (WORKERS - 1))


def _number(value: float | None, unit: str = "", digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}{unit}"


if __name__ == "__main__":
    run(
        lambda arguments: main(
            arguments, {DOCUMENT: lambda: "\n".join(_lines())}, FIGURES, TASKS, update_task
        )
    )
