"""Save, read and validate the plan in the folder of a run, so that the run can be resumed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from offload import command_line, files
from offload.bench.analysis.gate import GateTerms
from offload.bench.analysis.latency_capacity import LatencyTarget
from offload.bench.planning.blocks import Block
from offload.bench.planning.plan import (
    CAPACITY,
    GATE,
    Fixed,
    Gate,
    LatencySearch,
    Plan,
    Sequential,
    StoppingRule,
)
from offload.bench.records import journal, lines, machines
from offload.errors import StorageError, UsageError
from offload.registry import catalog
from offload.suites import Case

FILE = machines.FILE
RETIRED = ("selects", "predicted")  # fields of plans until 0.2
ARGV = "argv"  # its key in the file
MAX_COUNT, MAX_ROUNDS = 10**9, 1000  # of users or requests; more rounds would take days
MAX_DIGITS = 9  # of a number of workers
MAX_CASES = 1000  # more would take days; the same limit holds for blocks


@dataclass(frozen=True)
class _Saved:
    """The values of a plan in the file; `rounds`, `gate` or `latency` are those of its rule."""

    suite: str
    cases: tuple[Case, ...]
    seed: int
    driver: str | None
    quick: bool = False
    target: float | None = None
    missing: str | None = None
    blocks: tuple[Block, ...] = ()
    budget_s: float | None = None
    rounds: int | None = None
    gate: GateTerms | None = None
    latency: LatencyTarget | None = None

    @property
    def plan(self) -> Plan:
        """The plan with these values."""
        known: dict[str, Any] = {"quick": self.quick, "target": self.target}
        known["budget_s"] = self.budget_s
        rule: StoppingRule = Sequential(**known)
        if self.latency is not None:
            rule = LatencySearch(latency=self.latency, **known)
        elif self.gate is not None:
            rule = Gate(terms=self.gate, **known)
        elif self.rounds is not None:
            rule = Fixed(rounds=self.rounds, **known)
        return Plan(self.suite, self.cases, self.seed, self.driver, rule, self.missing, self.blocks)


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
        values = {**_values(plan), ARGV: argv, machines.KEY: machines.read(folder)}
        for case, saved in zip(plan.cases, values["cases"], strict=True):
            saved["request"] = None if case.request is None else dict(case.request.masked)
        files.replace(path, json.dumps(values, indent=1).encode() + b"\n")
    except OSError as error:
        what = f"{path}: {error.strerror}"
        raise StorageError(what, "check permissions and disk space") from error


def _values(plan: Plan) -> dict[str, Any]:
    """Return the values of a plan in its file: those of its rule are beside the others."""
    values = asdict(plan)
    rule: dict[str, Any] = values.pop("rule")
    of_one = {"rounds": "rounds", "gate": "terms", "latency": "latency"}  # keys of one rule alone
    return {**values, **{key: rule.pop(name, None) for key, name in of_one.items()}, **rule}


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
                case["settings"] = lines.renamed_settings(case["settings"])
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
    saved: _Saved = lines.built(_Saved, values, "plan")
    _check_names(_Saved, values)
    for case in values["cases"]:
        _check_names(Case, case)
    _check_values(saved)
    places = {*range(len(saved.cases))}
    for block in saved.blocks:
        if not block.cases:
            raise ValueError("a block has no case")
        if not {*block.cases} <= places:
            raise ValueError(f"a block has cases {block.cases}, but there are {len(saved.cases)}")
        own = {*block.cases}
        if len(own) < len(block.cases) or len({*block.pairs}) < len(block.pairs):
            raise ValueError("a block has a case or a pair twice")
        if any(len(pair) != 2 or not own.issuperset(pair) for pair in block.pairs):
            raise ValueError(f"a block of cases {block.cases} has pairs {block.pairs}")
    _check_gate(saved)
    _check_latency(saved)
    return saved.plan


def _check_values(saved: _Saved) -> None:
    """Raise ValueError for a number with which no measurement is possible."""
    if saved.rounds == 0:
        raise ValueError("it has no rounds")
    sizes = {name: catalog.find_server(name).size for name in {c.server for c in saved.cases}}
    for case in saved.cases:
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
    _check_count("rounds", saved.rounds, MAX_ROUNDS)
    if saved.budget_s is not None and saved.budget_s < 0:
        raise ValueError(f"budget_s={saved.budget_s} must be at least 0")
    if saved.target is not None and not saved.target > 0:
        raise ValueError(f"target={saved.target} must be more than 0")


def _check_gate(saved: _Saved) -> None:
    """Raise ValueError or UsageError for an invalid gate."""
    if (saved.suite == GATE) != (saved.gate is not None):
        raise ValueError(f"its suite is {saved.suite!r}, but only a gate has the field `gate`")
    if saved.gate is None:
        return
    if not 0 < saved.gate.loss < 1:
        raise ValueError(f"the loss {saved.gate.loss} of a gate must be between 0 and 1")
    if not saved.blocks or any(block.pairs != (block.cases,) for block in saved.blocks):
        raise ValueError("a gate compares two cases in each block")


def _check_latency(saved: _Saved) -> None:
    """Raise ValueError for an invalid latency target."""
    if (saved.suite == CAPACITY) != (saved.latency is not None):
        what = f"its suite is {saved.suite!r}, but only {CAPACITY} has the field `latency`"
        raise ValueError(what)
    if saved.latency is None:
        return
    if len(saved.cases) != 1 or saved.blocks or saved.driver is not None:
        raise ValueError("a latency target is for one case without blocks and long runs")
    if not 0 < saved.latency.share < 1 or not saved.latency.seconds > 0:
        raise ValueError(f"{saved.latency} is not a latency target")
    if saved.latency.arrivals not in ("uniform", "poisson"):
        raise ValueError(f"arrivals={saved.latency.arrivals!r} is unknown")


def _check_count(name: str, count: int | None, maximum: int) -> None:
    if count is not None and not 1 <= count <= maximum:
        raise ValueError(f"{name}={count} must be from 1 to {maximum}")


def _check_names(cls: type, values: dict[str, Any]) -> None:
    """Raise ValueError for an unknown field, because it may change what is measured."""
    if unknown := values.keys() - {each.name for each in fields(cls)}:
        raise ValueError(f"it has {', '.join(sorted(unknown))}: another version wrote it")
