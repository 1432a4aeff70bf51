"""Build records for tests from field names, without their nesting."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, get_type_hints

from offload.engine import builder
from offload.engine.host import environment
from offload.engine.record import CaseFacts, Record, ServerFacts, Trial
from offload.errors import LOAD, UNAVAILABLE, Flag, Problem
from offload.suites import Case
from offload.upstream import Upstream

# Names that more than one part has, each with the part that tests mean by it.
SPECIAL = {
    "response_mean_s": "result.response.mean_s",
    "response_how": "result.response.how",
    **{
        f"response_{name}_s": f"result.response.{name}_s"
        for name in ("p50", "p90", "p95", "p99", "p999", "max")
    },
    "driver_cpu_s": "load.cpu_s",
    "driver_busy": "load.busy",
    "driver_version": "load.version",
    "server_cpu_s": "resources.cpu_s",
    "server_life_cpu_s": "server.life_cpu_s",
    "memory_pss_mib": "resources.memory.pss_mib",
    "memory_uss_mib": "resources.memory.uss_mib",
    "memory_rss_mib": "resources.memory.rss_mib",
    "task_s": "tasks.wall_s",
    "task_cpu_s": "tasks.cpu_s",
    "task_queued_s": "tasks.queued_s",
    "alone_task_s": "tasks.alone_s",
    "alone_task_cpu_s": "tasks.alone_cpu_s",
    "gil_hold": "gil.hold.value",
    "gil_hold_low": "gil.hold.low",
    "gil_hold_high": "gil.hold.high",
    "gil_utilisation": "gil.utilisation.value",
    "gil_utilisation_low": "gil.utilisation.low",
    "gil_utilisation_high": "gil.utilisation.high",
    "gil_switches": "gil.switches",
    "gil_hold_p75_s": "gil.hold_p75_s",
    "gil_why": "gil.why",
    "alone_s": "baseline.alone_s",
    "queued_s": "resources.queued_s",
    "server": "case.server",
}


def _paths(cls: type, prefix: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    hints = get_type_hints(cls)
    for each in fields(cls):
        path = f"{prefix}{each.name}"
        nested = hints[each.name]
        if is_dataclass(nested) and isinstance(nested, type):
            found = {**_paths(nested, f"{path}."), **found}
        found[each.name] = path
    return found


PATHS = {**_paths(Record), **SPECIAL}


def leaves(cls: type = Record, prefix: str = "") -> dict[str, Any]:
    """Return the path of every field that is no nested part, with its type."""
    found: dict[str, Any] = {}
    hints = get_type_hints(cls)
    for name in (each.name for each in fields(cls)):
        kind, path = hints[name], f"{prefix}{name}"
        found |= leaves(kind, f"{path}.") if is_dataclass(kind) else {path: kind}
    return found


def changed(record: Record, **values: Any) -> Record:
    """Return a record with other values: `rate=1.0` is `record.result.rate`.

    Flags may be given as "kind: message: remedy", a problem by its text.
    """
    if "flags" in values:
        values["flags"] = tuple(_flag(flag) for flag in values["flags"])
    if isinstance(problem := values.get("problem"), str):
        text = problem.removeprefix("not available: ")
        values["problem"] = Problem(LOAD if text == problem else UNAVAILABLE, text)
    if values.keys() & {"server", "task", "command"}:
        named = {name: getattr(record.case, name) for name in ("server", "task", "command")}
        words = {**named, **{key: values[key] for key in named if key in values}}
        values.setdefault("id", f"{words['server']}/{words['task']} by {words['command']}")
    for name, value in values.items():
        record = set_path(record, PATHS[name].split("."), value)
    return record


def value_of(record: Record, name: str) -> Any:
    """Return the field that `changed` would change."""
    value: Any = record
    for part in PATHS[name].split("."):
        value = getattr(value, part)
    return value


def new_record(case: Case, run: str, upstream: Upstream | None = None, **values: Any) -> Record:
    """Return the record of a case before anything is measured."""
    made = Record(
        builder.new_trial(run),
        builder.case_facts(case, upstream),
        ServerFacts(settings=case.settings),
        environment=environment(),
    )
    return changed(made, **values)


def record_of(
    run: str, server: str, task: str, users: int, command: str, utc: str, **values: Any
) -> Record:
    """Return a record of a case that need not exist."""
    case = CaseFacts(f"{server}/{task} by {command}", server, task, command, users)
    return changed(Record(Trial(run, utc), case), **values)


def _flag(flag: Flag | str) -> Flag:
    if isinstance(flag, Flag):
        return flag
    kind, _, rest = flag.partition(": ")
    message, _, remedy = rest.partition(": ")
    return Flag(kind, message, remedy)


def set_path(part: Any, path: list[str], value: Any) -> Any:
    name, *rest = path
    return replace(part, **{name: set_path(getattr(part, name), rest, value) if rest else value})
