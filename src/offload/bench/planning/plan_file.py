"""Save, read and validate the plan in the folder of a run, so that the run can be resumed."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from offload import command_line, files
from offload.bench.records import journal, machines
from offload.engine.plan import (
    CAPACITY,
    GATE,
    Fixed,
    Gate,
    LatencySearch,
    Plan,
    Sequential,
    StoppingRule,
)
from offload.engine.record import dataclass_from, renamed_settings
from offload.errors import StorageError, UsageError
from offload.registry import catalog
from offload.suites import Case

FILE = machines.FILE
RETIRED = ("selects", "predicted")  # fields of plans until 0.2
ARGV = "argv"  # its key in the file
MAX_COUNT, MAX_ROUNDS = 10**9, 1000  # of users or requests; more rounds would take days
MAX_DIGITS = 9  # of a number of workers
MAX_CASES = 1000  # more would take days; the same limit holds for blocks
# In the file the values of the rule are beside the others; these belong to one kind of rule.
RULES: dict[str, type[StoppingRule]] = {"latency": LatencySearch, "gate": Gate, "rounds": Fixed}
COMMON = [each.name for each in fields(Sequential)]  # values of every rule


def save(plan: Plan, folder: Path) -> None:
    """Save the plan in its run's folder; raise StorageError, or UsageError if it is too long.

    The words of the command are those that it had when the run started.
    """
    path = folder / FILE
    argv = load_argv(folder) or [*command_line.argv]
    for name, found in (("cases", plan.cases), ("blocks", plan.blocks)):
        if len(found) > MAX_CASES:
            raise UsageError(f"{len(found)} {name} are too many", f"use at most {MAX_CASES}")
    try:
        values = {**asdict(plan), **dict.fromkeys(RULES), **asdict(plan.rule)}
        del values["rule"]
        values |= {ARGV: argv, machines.KEY: machines.read(folder)}
        for case, saved in zip(plan.cases, values["cases"], strict=True):
            saved["request"] = None if case.request is None else dict(case.request.masked)
        files.replace(path, json.dumps(values, indent=1).encode() + b"\n")
    except OSError as error:
        what = f"{path}: {error.strerror}"
        raise StorageError(what, "check permissions and disk space") from error


def exists(folder: Path) -> bool:
    """Whether a run has a plan; the run.json of single load tests has only machines.

    If the file cannot be read, return True, so that `load` reports why.
    """
    try:
        return "cases" in files.parse_json(files.read(folder / FILE, max_mib=machines.MAX_MIB))
    except FileNotFoundError:
        return False
    except (OSError, ValueError, TypeError):
        return True


def load(folder: Path) -> Plan:
    """Read the plan of a run; raise StorageError if it is missing or not readable."""
    path = folder / FILE
    try:
        values = files.parse_json(files.read(path, max_mib=machines.MAX_MIB))
        if not isinstance(values, dict):
            raise ValueError("it is not a JSON object")
        values.pop(machines.KEY, None)
        values.pop(ARGV, None)
        for name in RETIRED:
            values.pop(name, None)
        for case in values.get("cases", ()):
            if isinstance(case, dict) and isinstance(case.get("settings"), dict):
                case["settings"] = renamed_settings(case["settings"])
        return _validated_plan(values)
    except OSError as error:
        what = f"{path}: {error.strerror}"
        raise StorageError(what, "make it readable, or start a new run") from error
    except (ValueError, TypeError, AttributeError, UsageError) as error:
        what = f"{path} is not a plan of a run by this version ({error})"
        raise StorageError(what, "start a new run, or use the version that wrote it") from error


def load_argv(folder: Path) -> list[str] | None:
    """Return the words of the command that started a run; None if they are unknown.

    A value that may be a secret is `***`.
    """
    try:
        found = files.parse_json(files.read(folder / FILE, max_mib=machines.MAX_MIB))[ARGV]
    except (OSError, ValueError, TypeError, LookupError):
        return None
    is_valid = isinstance(found, list) and all(isinstance(word, str) for word in found)
    return found if is_valid and found else None


def find(folder: Path) -> Plan | None:
    """Return the plan of a run; None if it has none, or one that this version cannot read.

    The records of such a run suffice for a report.
    """
    try:
        return load(folder) if exists(folder) else None
    except StorageError as error:
        journal.warn_once(f"{error.what}: its records are read without it")
        return None


def _validated_plan(values: dict[str, Any]) -> Plan:
    """Build a plan from the values of its file; raise ValueError if it cannot be run."""
    if "blocks" not in values:
        raise ValueError("it has no blocks: another version wrote it")
    for name in ("cases", "blocks"):
        found = values.get(name)
        if isinstance(found, list) and len(found) > MAX_CASES:
            raise ValueError(f"it has {len(found)} {name}, and at most {MAX_CASES} are allowed")
    given = {name: values.pop(name) for name in (*COMMON, *RULES) if name in values}
    kind = next((RULES[name] for name in RULES if given.get(name) is not None), Sequential)
    _check_names(Plan, values)
    plan: Plan = dataclass_from(Plan, values, "plan", rule=dataclass_from(kind, given, "plan"))
    for case in values["cases"]:
        _check_names(Case, case)
    _check_values(plan)
    places = {*range(len(plan.cases))}
    for block in plan.blocks:
        if not block.cases:
            raise ValueError("a block has no case")
        if not {*block.cases} <= places:
            raise ValueError(f"a block has cases {block.cases}, but there are {len(plan.cases)}")
        own = {*block.cases}
        if len(own) < len(block.cases) or len({*block.pairs}) < len(block.pairs):
            raise ValueError("a block has a case or a pair twice")
        if any(len(pair) != 2 or not own.issuperset(pair) for pair in block.pairs):
            raise ValueError(f"a block of cases {block.cases} has pairs {block.pairs}")
    _check_rule(plan)
    return plan


def _check_values(plan: Plan) -> None:
    """Raise ValueError for a number with which no measurement is possible."""
    sizes = {name: catalog.find_server(name).size for name in {c.server for c in plan.cases}}
    for case in plan.cases:
        counts = {"users": case.users, "requests": case.requests, "clients": case.clients}
        counts |= {"slots": case.slots}
        for name, count in counts.items():
            _check_count(name, count, MAX_COUNT)
        if not case.seconds > 0:
            raise ValueError(f"seconds={case.seconds} must be more than 0")
        for size in {"processes", sizes[case.server] or "processes"}:
            known = case.settings.get(size, 1)
            if not str(known).isdecimal() or len(str(known)) > MAX_DIGITS:
                raise ValueError(f"setting {size}={str(known)[:20]!r} is not a number of workers")
    rule = plan.rule
    if rule.budget_s is not None and rule.budget_s < 0:
        raise ValueError(f"budget_s={rule.budget_s} must be at least 0")
    if rule.target is not None and not rule.target > 0:
        raise ValueError(f"target={rule.target} must be more than 0")


def _check_rule(plan: Plan) -> None:
    """Raise ValueError for a rule with invalid values, or of another kind than its suite needs."""
    rule = plan.rule
    for suite, kind in ((GATE, Gate), (CAPACITY, LatencySearch)):
        if (plan.suite == suite) != isinstance(rule, kind):
            name = next(name for name, each in RULES.items() if each is kind)
            what = f"its suite is {plan.suite!r}, but only a {suite} has the field `{name}`"
            raise ValueError(what)
    match rule:
        case Fixed(rounds=0):
            raise ValueError("it has no rounds")
        case Fixed(rounds=rounds):
            _check_count("rounds", rounds, MAX_ROUNDS)
        case Gate(gate=terms):
            if not 0 < terms.loss < 1:
                raise ValueError(f"the loss {terms.loss} of a gate must be between 0 and 1")
            if not plan.blocks or any(block.pairs != (block.cases,) for block in plan.blocks):
                raise ValueError("a gate compares two cases in each block")
        case LatencySearch(latency=target):
            if len(plan.cases) != 1 or plan.blocks or plan.driver is not None:
                raise ValueError("a latency target is for one case without blocks and long runs")
            if not 0 < target.share < 1 or not target.seconds > 0:
                raise ValueError(f"{target} is not a latency target")
            if target.arrivals not in ("uniform", "poisson"):
                raise ValueError(f"arrivals={target.arrivals!r} is unknown")


def _check_count(name: str, count: int | None, maximum: int) -> None:
    if count is not None and not 1 <= count <= maximum:
        raise ValueError(f"{name}={count} must be from 1 to {maximum}")


def _check_names(cls: type, values: dict[str, Any]) -> None:
    """Raise ValueError for an unknown field, because it may change what is measured."""
    if unknown := values.keys() - {each.name for each in fields(cls)}:
        raise ValueError(f"it has {', '.join(sorted(unknown))}: another version wrote it")
