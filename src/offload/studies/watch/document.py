"""The output of `offload watch`: a line per reading and a summary, as text or JSON lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from offload.causes import who
from offload.documents.text import WIDTH, TableLine, render_table, wrapped
from offload.engine import gil_sampler
from offload.studies.watch import diagnosis
from offload.studies.watch.diagnosis import Signs
from offload.studies.watch.gil_meter import OFF, ON, GilUse
from offload.studies.watch.readings import ProcessReading, Reading, Watch
from offload.studies.watch.response_time import Response
from offload.studies.watch.summary import (
    HELD_WITHOUT_CPU,
    NO_CORE_FREE,
    NO_GIL,
    RELEASES,
    SATURATED_GIL,
    WAITS,
    Finding,
    Statistic,
    Statistics,
    Summary,
)
from offload.studies.watch.threads import LoopUse
from offload.units import percent

UNKNOWN = "-"
NO_RHO = "no GIL"
HEAD = ("time", "CPU", "PSS MiB", "threads", "vol/s", "invol/s", "rho")
WIDTHS = (7, 6, 9, 7, 8, 8, 6)
RESPONSE, RESPONSE_WIDTH = "response", 11
BY_PID = "rho by pid"
LEGEND = "vol/s, invol/s: context switches; rho: the share of the time in which the GIL is held"
NAME_WIDTH, MOST_PROCESSES = 24, 20  # of the summary
IDLE = 0.95  # share of the time in which a loop waits for events, from which it is not shown
LATE = "~"  # prefix of a rho with many late samples

SENTENCES = {
    SATURATED_GIL: (
        "The GIL of pid {pid} is held {rho} of the time: more threads gain nothing; use "
        "processes, or a Python without a GIL."
    ),
    NO_CORE_FREE: (
        "The GIL of pid {pid} is held {rho} of the time, and the processes use {cpu:.1f} of "
        "{cores} cores: more threads or processes gain nothing here."
    ),
    HELD_WITHOUT_CPU: (
        "The GIL of pid {pid} is held {rho} of the time, but the process uses only {cpu:.2f} "
        "cores: a thread holds the GIL while it waits for a core, or blocks in C code."
    ),
    NO_GIL: (
        "Pid {pid} has no GIL, so its threads can use several cores; they used {cpu:.2f} on "
        "average."
    ),
    RELEASES: (
        "The GIL of pid {pid} is held {rho} of the time, while the process uses {cpu:.2f} "
        "cores: threads are as fast as processes."
    ),
    WAITS: (
        "The GIL of pid {pid} is held {rho} of the time, and the processes use {cpu:.2f} "
        "cores: they wait; neither the GIL nor the CPU is a limit."
    ),
}


def description(watch: Watch) -> str:
    """Return what is watched, what the columns mean, and a line for each unreadable GIL."""
    versions = sorted({gil.python for gil in watch.gils.values() if gil.python is not None})
    python = f", Python {' and '.join(versions)}" if versions else ""
    count = len(watch.gils)
    processes = f"{count} process{'es' if count > 1 else ''}"
    lines = [f"watching pid {watch.pid} ({watch.name}), {processes}{python}; Ctrl-C ends", LEGEND]
    reasons = [gil.why.message for gil in watch.gils.values() if gil.why is not None]
    return "\n".join([*lines, *(f"no rho: {reason}" for reason in dict.fromkeys(reasons))])


def names(has_url: bool) -> tuple[str, ...]:
    """Return the names of the cells of a reading."""
    return (*HEAD, *((RESPONSE,) if has_url else ()), BY_PID)


def head(has_url: bool) -> str:
    """Return the head of the lines of readings."""
    return _line(names(has_url))


def cells(reading: Reading, has_url: bool) -> tuple[str, ...]:
    """Return a reading as texts."""
    tree = reading.tree
    return (
        f"{reading.elapsed_s:.0f} s",
        _number(tree.cpu, 2),
        _number(tree.pss_mib, 1),
        _number(tree.threads, 0),
        _number(tree.switches_voluntary, 0),
        _number(tree.switches_involuntary, 0),
        _largest(reading.processes),
        *((_response(reading.response),) if has_url else ()),
        _by_pid(reading.processes, WIDTH - 80),
    )


def line(reading: Reading, has_url: bool) -> str:
    """Return a reading as a line of at most 100 characters."""
    return _line(cells(reading, has_url)).rstrip()[:WIDTH]


def text(summary: Summary, own_cpu: float | None, signs: Signs) -> str:
    """Return the summary: the mean and maximum of each figure, the causes and the hot lines."""
    figures = {"all": summary.tree} if len(summary.processes) > 1 else {}
    longest = sorted(
        summary.processes.items(), key=lambda each: each[1].figures["threads"].count, reverse=True
    )
    for pid, process in longest[:MOST_PROCESSES]:
        figures[f"{pid} {process.name}"[:NAME_WIDTH]] = process.figures
    rows = [TableLine((name, *_cells(statistics))) for name, statistics in figures.items()]
    lines = [
        "",
        f"mean (maximum) of {summary.readings} readings in {summary.seconds:.0f} s",
        render_table(("process", *HEAD[1:]), rows),
    ]
    if len(longest) > MOST_PROCESSES:
        lines.append(f"and {len(longest) - MOST_PROCESSES} processes that ran for a shorter time")
    if summary.responses.count or summary.failed:
        ok = summary.responses
        times = f"{_ms(ok.mean)} ({_ms(ok.maximum)}) of {ok.count} requests, " if ok.count else ""
        lines.append(f"response: {times}{summary.failed} failed")
    if any(process.unreliable for process in summary.processes.values()):
        lines.append(
            f"{LATE}: more than {_percent(gil_sampler.LATE)} of the samples in a second were late, "
            "because no core was free"
        )
    if own_cpu is not None:
        lines.append(f"watch itself used {own_cpu:.3f} cores")
    lines += [wrapped(each) for each in conclusion(summary, signs)]
    return "\n".join(lines)


def conclusion(summary: Summary, signs: Signs) -> list[str]:
    """Return the causes, the finding, what the loops do, and the hot lines, as sentences."""
    causes, finding = diagnosis.find(signs), summary.finding()
    lines = [cause.sentence for cause in causes]
    if not causes and finding is not None:
        lines.append(sentence(finding))
    active = [loop for loop in signs.loops if loop.idle < IDLE]
    lines += [describe_loop(loop) for loop in active[:MOST_PROCESSES]]
    lines += [
        f"GIL of pid {each.pid}: held {_percent(each.share)} of the time by "
        f"{diagnosis.describe_holder(each)}."
        for each in signs.holders
    ]
    lines += [f"Not seen: {why}." for why in signs.unknown]
    return [*lines, *who.sentences(signs.who, {cause.cause.line for cause in causes})]


def describe_loop(loop: LoopUse) -> str:
    """Return what the thread of an event loop does, as a sentence."""
    parts = {
        "waits for events": loop.idle,
        "runs": loop.running,
        "waits for a lock or the GIL": loop.locked,
        "is blocked": loop.blocked,
    }
    shares = ", ".join(f"{what} {_percent(share)}" for what, share in parts.items() if share)
    return f"Event loop of pid {loop.pid}: {shares}."


def sentence(found: Finding) -> str:
    """Return a finding as a sentence."""
    return SENTENCES[found.kind].format(**{**asdict(found), "rho": _percent(found.rho)})


def json_line(reading: Reading) -> str:
    """Return a reading as one line of JSON."""
    response = reading.response
    return json.dumps(
        {
            "type": "reading",
            "time": round(reading.at, 3),
            "elapsed_s": round(reading.elapsed_s, 3),
            "tree": _rounded(asdict(reading.tree)),
            "processes": [_process(process) for process in reading.processes],
            "response": None if response is None else _rounded(asdict(response)),
        }
    )


def json_summary(summary: Summary, own_cpu: float | None, signs: Signs) -> str:
    """Return the summary as one line of JSON."""
    found = summary.finding()
    return json.dumps(
        {
            "type": "summary",
            "seconds": round(summary.seconds, 3),
            "readings": summary.readings,
            "tree": _statistics(summary.tree),
            "processes": [
                {
                    "pid": pid,
                    "name": process.name,
                    "gil": process.gil,
                    "gil_why": process.why,
                    **_statistics(process.figures),
                }
                for pid, process in summary.processes.items()
            ],
            "response_s": _statistic(summary.responses),
            "responses_failed": summary.failed,
            "own_cpu": None if own_cpu is None else round(own_cpu, 4),
            "finding": None if found is None else found.kind,
            "causes": [cause.values for cause in diagnosis.find(signs)],
            "loops": [_rounded(asdict(loop)) for loop in signs.loops],
            "pools": [_rounded(asdict(pool)) for pool in signs.pools],
            "gil_holders": [_rounded(asdict(holder)) for holder in signs.holders],
            "not_seen": list(signs.unknown),
            **who.values(signs.who),
            "sentence": None if found is None else sentence(found),
        }
    )


def _line(texts: Sequence[str]) -> str:
    widths = (*WIDTHS, RESPONSE_WIDTH)
    *numbers, last = texts
    parts = [f"{text:>{width}}" for text, width in zip(numbers, widths, strict=False)]
    return f"{' '.join(parts)}  {last}"


def _process(process: ProcessReading) -> dict[str, object]:
    gil = process.gil
    fields = {
        **asdict(process.use),
        "gil": gil.state,
        "gil_why": None if gil.why is None else gil.why.message,
        "python": gil.python,
        "gils": gil.gils,
        "rho": gil.rho,
        "rho_samples": gil.samples,
        "rho_late": gil.late,
        "gil_switches": gil.switches_per_s,
    }
    return _rounded(fields)


def _rounded(fields: dict[str, object]) -> dict[str, object]:
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in fields.items()
    }


def _statistics(statistics: Statistics) -> dict[str, object]:
    return {name: _statistic(statistic) for name, statistic in statistics.items()}


def _statistic(statistic: Statistic) -> dict[str, object]:
    return _rounded({"mean": statistic.mean, "max": statistic.maximum})


def _cells(statistics: Statistics) -> list[str]:
    decimals = {"cpu": 2, "pss_mib": 1, "rho": 2}
    return [
        UNKNOWN
        if statistic.mean is None
        else f"{_number(statistic.mean, places)} ({_number(statistic.maximum, places)})"
        for name, statistic in statistics.items()
        for places in [decimals.get(name, 0)]
    ]


def _largest(processes: tuple[ProcessReading, ...]) -> str:
    gils = [process.gil for process in processes]
    known = [gil for gil in gils if gil.rho is not None]
    if known:
        return _rho(max(known, key=lambda gil: gil.rho or 0.0))
    return NO_RHO if any(gil.state == OFF for gil in gils) else UNKNOWN


def _rho(gil: GilUse) -> str:
    if gil.state == OFF:
        return NO_RHO
    if gil.state != ON or gil.rho is None:
        return UNKNOWN
    return f"{'' if gil.is_reliable else LATE}{gil.rho:.2f}"


def _by_pid(processes: tuple[ProcessReading, ...], width: int) -> str:
    """Return the largest rhos with their pids, as many as fit; empty for a single process."""
    known = [process for process in processes if process.gil.rho is not None]
    if len(processes) < 2:
        return ""
    words: list[str] = []
    for process in sorted(known, key=lambda each: each.gil.rho or 0.0, reverse=True):
        word = f"{process.use.pid}:{_rho(process.gil)}"
        if len(" ".join([*words, word])) > width:
            break
        words.append(word)
    return " ".join(words)


def _response(response: Response | None) -> str:
    if response is None:
        return UNKNOWN
    if response.is_pending:
        return f"> {_ms(response.seconds)}"
    if response.error is not None:
        return "failed"
    return _ms(response.seconds) if response.is_ok else f"status {response.status}"


def _ms(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else f"{seconds * 1e3:.1f} ms"


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else percent(share)


def _number(value: float | None, places: int) -> str:
    return UNKNOWN if value is None else f"{value:.{places}f}"
