"""Every figure of a run, under the names of the JSON report, one row for each case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from offload.reports.html.parts import DIGITS, Cell, Panel, Section, number, table, text
from offload.reports.html.run import MeasuredRun
from offload.reports.tables import labels

ABOUT = (
    "Rates are in requests/s, times in s unless the name contains ms, memory in MiB, shares from 0 "
    "to 1. A dash is unknown.",
)
LISTS = ("flags", "causes")  # texts and nested objects, which other sections show


def section(run: MeasuredRun, title: str = "Every figure") -> Section:
    """Return the section with the figures of the JSON report."""
    found = run.results
    names = [labels.case_name(row.first) for row in run.rows]
    panels = [_panel(f"Every figure of {run.name}", "Case", names, _objects(found["rows"]))]
    if ratios := _objects(found["effects"]):
        tasks = [f"{ratio['other']} over {ratio['one']}: {ratio['task']}" for ratio in ratios]
        panels.append(_panel(f"Every ratio of {run.name}", "Ratio", tasks, ratios))
    machine = dict(_flatten(_object(found["machine"])))
    rows = [(text(name), _cell(value)) for name, value in machine.items() if value is not None]
    panels.append(Panel(table(f"Machine of {run.name}", ("Fact", "Value"), rows)))
    return Section("figures", title, tuple(panels))


def _panel(
    caption: str, first: str, names: Sequence[str], found: Sequence[Mapping[str, object]]
) -> Panel:
    """Return a table of objects, with a column for each key that has a value in any of them."""
    flat = [dict(_flatten(each)) for each in found]
    keys = list(dict.fromkeys(key for each in flat for key in each))
    rows = [
        (text(name), *(_cell(each.get(key)) for key in keys))
        for name, each in zip(names, flat, strict=True)
    ]
    return Panel(table(caption, (first, *keys), rows, ABOUT))


def _flatten(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the names and values of an object, including those of nested objects."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name} ")
        elif name not in LISTS:
            yield f"{prefix}{name}", value


def _cell(value: object) -> Cell:
    if isinstance(value, bool):
        return text("yes" if value else "no")
    if isinstance(value, int | float):
        return number(str(value) if isinstance(value, int) else f"{value:.{DIGITS}g}", value)
    if isinstance(value, list | tuple):
        return text(", ".join(map(str, value)))
    return text(value)


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _objects(value: object) -> list[Mapping[str, object]]:
    return [_object(each) for each in value] if isinstance(value, list) else []
