"""The folder of a run: records.jsonl, the append-only journal, and run.json, its plan and machines.

The records of a run that is kept may be compressed, in records.jsonl.gz. They are read as they are,
and later ones are appended to records.jsonl beside it. run.json has the plan, so that the run can
be resumed, and once the facts of each machine that the records name. An edited file may have
records of an unknown case, block or round, which would change what is due: they are ignored.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import importlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from dataclasses import replace as replaced
from datetime import UTC, datetime
from errno import ENOTDIR
from functools import cache
from pathlib import Path
from typing import Any

from offload import command_line, files
from offload.engine.plan import Fixed, Plan, Sequential, StoppingRule
from offload.engine.record import (
    SCHEMA,
    TEST,
    WINDOW,
    Record,
    SchemaError,
    dataclass_from,
    from_line,
    to_line,
)
from offload.errors import RunError, StorageError, UsageError, escaped, shortened
from offload.registry import catalog
from offload.suites import Case

RESULTS = Path(os.environ.get("RESULTS", "results")).absolute()
FILE = "records.jsonl"
COMPRESSED = f"{FILE}.gz"
QUESTION = "question.json"  # what a study asked and found besides the records
MOST_LISTED = 3  # line numbers in a warning
MOST_NAMED = 5  # runs in an error
SCHEMA_OF_LINE = re.compile(rb'\{"schema": (\d{1,4})[,}]')
LASTING = "load_tests"  # the run to which all single load tests are appended


def new_run(name: str) -> Path:
    """Create the folder of a new run, named by the time in UTC; two runs never share one."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    _make_folder(RESULTS)
    for suffix in ("", *(f"-{n}" for n in range(2, 100))):
        folder = RESULTS / f"{stamp}-{name}{suffix}"
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise _unusable(folder, error) from error
        return folder
    raise StorageError(f"{RESULTS} has 99 runs that started in this second", "retry in a second")


def lasting_run(name: str = LASTING) -> Path:
    """Return the folder of a run that is continued each time; create it if needed.

    Records that another version wrote are kept beside it, under another name.
    """
    folder = RESULTS / name
    _make_folder(folder)
    path = folder / FILE
    try:
        with path.open("rb") as file:
            found = SCHEMA_OF_LINE.match(file.readline(100))
        if found is not None and int(found[1]) != SCHEMA:
            names = (f"records-schema-{int(found[1])}{n}.jsonl" for n in ("", *range(-2, -100, -1)))
            path.rename(next(new for name in names if not (new := folder / name).exists()))
    except FileNotFoundError:  # its first load test
        pass
    except OSError as error:
        raise _unusable(path, error) from error
    return folder


def check_writable() -> None:
    """Raise StorageError unless runs can be written to the results folder."""
    _make_folder(RESULTS)
    try:
        with tempfile.TemporaryFile(dir=RESULTS):
            pass
    except OSError as error:
        raise _unusable(RESULTS, error) from error


def append(folder: Path, *records: Record) -> None:
    """Append records atomically and durably: one write to an O_APPEND descriptor, then fsync.

    Their machine is added to run.json if it is missing there.
    """
    path = folder / FILE
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            # Otherwise a record could be appended to a line that another process has begun. The
            # kernel releases the lock when this process ends, however it ends.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # In the lock, too: run.json is replaced, and could lose the machine of another process.
            lines = [to_line(_as_stored(folder, record)) for record in records]
            _write(descriptor, path, "".join(f"{line}\n" for line in lines).encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _unusable(path, error) from error


def read(folder: Path) -> list[Record]:
    """Read the records of a run; a torn line, left by a crash, is skipped with a warning.

    Raise StorageError if they cannot be read, or were written by another version.
    """
    records = []
    known = read_machines(folder)
    for path, content in _contents(folder):
        bad: dict[int, str] = {}
        lines = content.decode(errors="replace").removesuffix("\n").split("\n")
        for number, line in enumerate(lines if lines != [""] else [], start=1):
            try:
                record = from_line(line)
                machine = known.get(record.trial.machine or "", {})
                records.append(replaced(record, environment=machine))
            except SchemaError as error:
                raise StorageError(
                    f"{path}:{number}: {error}", "measure again, or use the version that wrote it"
                ) from None
            except ValueError as error:
                bad[number] = str(error)
        _warn_of_bad_lines(path, bad)
    return records


def decompressed(folder: Path) -> bytes:
    """Return the lines of a run's compressed records, empty if it has none; raise StorageError."""
    path = folder / COMPRESSED
    if not is_file(path):
        return b""
    most = files.MAX_MIB << 20
    try:
        packed = files.read(path)
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            content = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise StorageError(f"{path} is damaged: {error}", "copy the file again") from None
    if len(content) > most:
        what = f"{path} has more than {files.MAX_MIB} MiB of records"
        raise StorageError(what, "decompress it by gunzip, if you trust it")
    return content


def _contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield each file of a run's records with its lines, the older records first."""
    compressed, plain = decompressed(folder), b""
    path = folder / FILE
    if not is_file(folder / COMPRESSED) or path.exists():
        try:
            plain = files.read(path)
        except OSError as error:
            raise _unusable(path, error) from error
    if not plain.startswith(compressed):  # otherwise it is a copy, which gunzip -k makes
        yield folder / COMPRESSED, compressed
    yield path, plain


def _warn_of_bad_lines(path: Path, bad: Mapping[int, str]) -> None:
    """Print one warning about all lines that are no records, by their numbers and errors."""
    numbers = [*bad]
    if len(numbers) == 1:
        warn_once(f"{path}:{numbers[0]} is not a record, skipped: {bad[numbers[0]]}")
    elif numbers:
        listed = ", ".join(map(str, numbers[:MOST_LISTED]))
        more = ", ..." if len(numbers) > MOST_LISTED else ""
        what = f"{len(numbers)} lines are no records, skipped: {listed}{more}"
        warn_once(f"{path}: {what}; line {numbers[0]}: {bad[numbers[0]]}")


@cache
def warn_once(text: str) -> None:
    """Print a warning, unless this process has printed it before: it may read a run repeatedly."""
    print(f"warning: {shortened(escaped(text))}", file=sys.stderr)


def count(folder: Path) -> int:
    """Count the records of a run that may have none yet."""
    return len(read(folder)) if exists(folder) else 0


def remove_without_records(folder: Path) -> None:
    """Remove the folder of a run that failed before its first record, with its other files."""
    if not exists(folder):
        shutil.rmtree(folder, ignore_errors=True)


def newest() -> Path:
    """Find the run with the newest records; raise StorageError if there is none."""
    try:
        runs = [folder for folder in folders() if not is_example(folder)]
        return max(runs, key=lambda folder: newest_file(folder).stat().st_mtime)
    except ValueError:
        raise StorageError(f"no run in {RESULTS}", "start one by offload quick") from None
    except OSError as error:
        raise _unusable(RESULTS, error) from error


def is_example(folder: Path) -> bool:
    """Whether a run is kept for reference, so that commands do not select it as the newest run.

    These are `baseline-NAME`, and the runs in the repository: `example...` and `reference...`.
    """
    return folder.name.partition("-")[0] in ("example", "reference", "baseline")


def named(run: str) -> Path:
    """Find a run by its folder's name, or by its path; raise UserError if it does not exist."""
    folder = _folder(run)
    if folder is None or not has_records(folder):
        if run.lower().endswith(".html"):
            remedy = f"name the folder of its run in {RESULTS}; copy the run of a colleague there"
            raise UsageError(f"{run} is a report, not a run", remedy)
        newest = sorted(folders(), key=lambda each: each.name, reverse=True)
        names = [each.name for each in sorted(newest, key=is_example)]
        known = ", ".join(names[:MOST_NAMED]) or "none"
        if (more := len(names) - MOST_NAMED) > 0:
            known += f" and {more} more"
        raise StorageError(f"no run {run[:100]!r} in {RESULTS}: there are {known}")
    return folder


def _folder(run: str) -> Path | None:
    """Return the folder that a name in results/ or a path means, if a run can have that name."""
    if is_name(run):
        return RESULTS / run
    path = Path(run).absolute()
    return path if os.sep in run and is_name(path.name) else None


def is_name(text: str) -> bool:
    """Whether a text can be the name of a folder in results/."""
    return text == Path(text).name and text not in ("", "..")


def folders() -> Iterator[Path]:
    """Yield the folders of all runs; a hidden one is a copy that `baseline` has not ended."""
    for folder in RESULTS.glob("*/"):
        if has_records(folder) and not folder.name.startswith("."):
            yield folder


def has_records(folder: Path) -> bool:
    """Whether a folder has a file of records that can be read, plain or compressed."""
    return is_file(folder / FILE) or is_file(folder / COMPRESSED)


def exists(folder: Path) -> bool:
    """Whether a run has records, which may be no regular file."""
    return (folder / FILE).exists() or (folder / COMPRESSED).exists()


def newest_file(folder: Path) -> Path:
    """Return the file that has the newest records of a run."""
    compressed = folder / COMPRESSED
    return compressed if is_file(compressed) and not is_file(folder / FILE) else folder / FILE


def is_file(path: Path) -> bool:
    """Whether a file exists; False for a name that is too long."""
    try:
        return path.is_file()
    except OSError:
        return False


def replace(path: Path, text: str) -> None:
    """Replace a file atomically: a reader sees the old text or the new one, never a part."""
    try:
        files.replace(path, text.encode())
    except OSError as error:
        raise _unusable(path, error) from error


def _as_stored(folder: Path, record: Record) -> Record:
    """Return a record as it is stored: its machine by name, and no output that it repeats.

    builtin prints nothing but the figures of the record; if it fails, also the reason. Several
    hosts print a line each.
    """
    name = keep_machine(folder, record.environment) if record.environment else None
    load = record.load
    if load.driver == "builtin" and not load.hosts and record.problem is None:
        load = replaced(load, output=None)
    return replaced(record, trial=replaced(record.trial, machine=name), load=load)


def _write(descriptor: int, path: Path, data: bytes) -> None:
    """Append lines, on a new line even after a torn one; write all of the data or nothing."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - 1))
        torn = file.read(1) not in (b"", b"\n")
    written = os.write(descriptor, b"\n" * torn + data)
    if written != len(data) + torn:
        if path.stat().st_size == size + written:  # no other process has appended
            os.ftruncate(descriptor, size)
        raise OSError(28, "only a part of the record could be written")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:  # a file, or a link to a folder that is missing
        raise _unusable(folder, NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR))) from None
    except OSError as error:
        raise _unusable(folder, error) from error


def _unusable(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{path}: {error.strerror}", "check permissions and disk space, or set RESULTS=folder"
    )


RUN_FILE = "run.json"
MACHINES = "machines"
MAX_RUN_MIB = 16  # of the file: larger ones take seconds to parse
IDENTITY = ("cpu", "cores", "kernel", "virtualisation")
LARGEST_FACT = 1e9  # number of cores or GiB in a file that somebody may have edited


def keep_machine(folder: Path, environment: Mapping[str, object]) -> str:
    """Save a machine's facts in a run's folder if they are missing; return the machine's name.

    Raise OSError.
    """
    text = json.dumps(environment, sort_keys=True)
    name = hashlib.sha256(text.encode()).hexdigest()[:8]
    known = read_machines(folder)
    if name not in known:
        values = {**_run_values(folder), MACHINES: {**known, name: environment}}
        files.replace(folder / RUN_FILE, json.dumps(values, indent=1).encode() + b"\n")
    return name


def read_machines(folder: Path) -> dict[str, Mapping[str, object]]:
    """Return the machines of a run by name; empty if run.json is missing or unreadable.

    Implausible facts, which an edited file may have, are omitted.
    """
    found = _run_values(folder).get(MACHINES)
    if not isinstance(found, dict):
        return {}
    return {
        name: {key: value for key, value in facts.items() if _is_plausible(key, value)}
        for name, facts in found.items()
        if isinstance(facts, dict)
    }


def machine_difference(one: Mapping[str, object], here: Mapping[str, object]) -> str | None:
    """Return the first difference of two machines, `cores: 8, here 2`; None if they are alike."""
    for name in IDENTITY:
        if one.get(name) != here.get(name):
            return f"{name}: {one.get(name)}, here {here.get(name)}"
    return None


def is_identified_machine(machine: Mapping[str, object]) -> bool:
    """Whether a property is known by which machines are distinguished."""
    return any(machine.get(name) is not None for name in IDENTITY)


def _is_plausible(key: str, value: object) -> bool:
    if key == "packages":
        return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
    if key in ("cores", "memory_gib") or (key == "cpu_quota" and value is not None):
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        return 0 < value <= LARGEST_FACT
    return value is None or isinstance(value, str)


def _run_json(folder: Path) -> Any:
    """Parse run.json, which somebody may have edited; raise OSError or ValueError."""
    return files.parse_json(files.read(folder / RUN_FILE, max_mib=MAX_RUN_MIB))


def _run_values(folder: Path) -> dict[str, Any]:
    try:
        values = _run_json(folder)
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


ARGV = "argv"  # its key in the file
MAX_COUNT = 10**9  # of users or requests
MAX_DIGITS = 9  # of a number of workers
MAX_CASES = 1000  # more would take days; the same limit holds for blocks


def save_plan(plan: Plan, folder: Path) -> None:
    """Save the plan in its run's folder; raise StorageError, or UsageError if it is too long.

    The words of the command are those that it had when the run started.
    """
    path = folder / RUN_FILE
    argv = load_argv(folder) or [*command_line.argv]
    for name, found in (("cases", plan.cases), ("blocks", plan.blocks)):
        if len(found) > MAX_CASES:
            raise UsageError(f"{len(found)} {name} are too many", f"use at most {MAX_CASES}")
    try:
        values = {**asdict(plan), **asdict(plan.rule)}
        del values["rule"]
        values |= {ARGV: argv, MACHINES: read_machines(folder)}
        for case, saved in zip(plan.cases, values["cases"], strict=True):
            saved["request"] = None if case.request is None else dict(case.request.masked)
        files.replace(path, json.dumps(values, indent=1).encode() + b"\n")
    except OSError as error:
        what = f"{path}: {error.strerror}"
        raise StorageError(what, "check permissions and disk space") from error


def has_plan(folder: Path) -> bool:
    """Whether a run has a plan; the run.json of single load tests has only machines.

    If the file cannot be read, return True, so that `load` reports why.
    """
    try:
        return "cases" in _run_json(folder)
    except FileNotFoundError:
        return False
    except (OSError, ValueError, TypeError):
        return True


def load_plan(folder: Path) -> Plan:
    """Read the plan of a run; raise StorageError if it is missing or not readable."""
    path = folder / RUN_FILE
    try:
        values = _run_json(folder)
        if not isinstance(values, dict):
            raise ValueError("it is not a JSON object")
        values.pop(MACHINES, None)
        values.pop(ARGV, None)
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
        found = _run_json(folder)[ARGV]
    except (OSError, ValueError, TypeError, LookupError):
        return None
    is_valid = isinstance(found, list) and all(isinstance(word, str) for word in found)
    return found if is_valid and found else None


def find_plan(folder: Path) -> Plan | None:
    """Return the plan of a run; None if it has none, or one that this version cannot read.

    The records of such a run suffice for a report.
    """
    try:
        return load_plan(folder) if has_plan(folder) else None
    except StorageError as error:
        warn_once(f"{error.what}: its records are read without it")
        return None


def _validated_plan(values: dict[str, Any]) -> Plan:
    """Build a plan from the values of its file; raise ValueError if it cannot be run."""
    if "blocks" not in values:
        raise ValueError("it has no blocks: another version wrote it")
    for name in ("cases", "blocks"):
        found = values.get(name)
        if isinstance(found, list) and len(found) > MAX_CASES:
            raise ValueError(f"it has {len(found)} {name}, and at most {MAX_CASES} are allowed")
    kind = _own_rule(values.get("suite")) or (Fixed if "rounds" in values else Sequential)
    given = {each.name: values.pop(each.name) for each in fields(kind) if each.name in values}
    _check_names(Plan, values)
    plan = replaced(dataclass_from(Plan, values), rule=dataclass_from(kind, given))
    for case in values["cases"]:
        _check_names(Case, case)
    _check_values(plan)
    case_indexes = {*range(len(plan.cases))}
    for block in plan.blocks:
        if not block.cases:
            raise ValueError("a block has no case")
        if not {*block.cases} <= case_indexes:
            raise ValueError(f"a block has cases {block.cases}, but there are {len(plan.cases)}")
        own = {*block.cases}
        if len(own) < len(block.cases) or len({*block.pairs}) < len(block.pairs):
            raise ValueError("a block has a case or a pair twice")
        if not all(own.issuperset(pair) for pair in block.pairs):
            raise ValueError(f"a block of cases {block.cases} has pairs {block.pairs}")
    plan.rule.check(plan)
    return plan


def _own_rule(suite: object) -> type[StoppingRule] | None:
    """Return the stopping rule of a study that has its own in rule.py of its folder."""
    folder = catalog.FOLDER / "studies"
    if suite not in catalog.STUDIES or not (folder / str(suite) / "rule.py").is_file():
        return None
    found: type[StoppingRule] = importlib.import_module(f"offload.studies.{suite}.rule").RULE
    return found


def _check_values(plan: Plan) -> None:
    """Raise ValueError for a number with which no measurement is possible."""
    for case in plan.cases:
        counts = {"users": case.users, "requests": case.requests, "clients": case.clients}
        counts |= {"slots": case.slots}
        for name, count in counts.items():
            _check_count(name, count, MAX_COUNT)
        if not case.seconds > 0:
            raise ValueError(f"seconds={case.seconds} must be more than 0")
        for size in ("processes", "workers"):
            known = case.settings.get(size, 1)
            if not str(known).isdecimal() or len(str(known)) > MAX_DIGITS:
                raise ValueError(f"setting {size}={str(known)[:20]!r} is not a number of workers")
    rule = plan.rule
    if rule.budget_s is not None and rule.budget_s < 0:
        raise ValueError(f"budget_s={rule.budget_s} must be at least 0")
    if rule.target is not None and not rule.target > 0:
        raise ValueError(f"target={rule.target} must be more than 0")


def _check_count(name: str, count: int | None, maximum: int) -> None:
    if count is not None and not 1 <= count <= maximum:
        raise ValueError(f"{name}={count} must be from 1 to {maximum}")


def _check_names(cls: type, values: dict[str, Any]) -> None:
    """Raise ValueError for an unknown field, because it may change what is measured."""
    if unknown := values.keys() - {each.name for each in fields(cls)}:
        raise ValueError(f"it has {', '.join(sorted(unknown))}: another version wrote it")


def read_planned(folder: Path, plan: Plan | None = None) -> list[Record]:
    """Read the records that are in the plan of a run; warn once about others.

    `plan` is by default the plan in the folder. If this version cannot read it, return all records.
    Raise StorageError if the records cannot be read.
    """
    records = read(folder)
    plan = plan or find_plan(folder)
    if plan is None:
        return records
    known = filter_planned(plan, records)
    if ignored := len(records) - len(known):
        what = "1 record is" if ignored == 1 else f"{ignored} records are"
        path = newest_file(folder)
        warn_once(f"{path}: {what} ignored: case, block or round is not in the plan")
    return known


def read_planned_if_any(folder: Path, plan: Plan | None = None) -> list[Record]:
    """Read the records that are in the plan of a run, which may have no records yet."""
    return read_planned(folder, plan) if exists(folder) else []


def filter_planned(plan: Plan, records: Sequence[Record]) -> list[Record]:
    """Return the records whose case, block and round are in the plan."""
    blocks = [frozenset(block.cases) for block in plan.blocks]
    return [record for record in records if _is_planned(plan, blocks, record)]


def _is_planned(plan: Plan, blocks: Sequence[frozenset[int]], record: Record) -> bool:
    trial = record.trial
    if trial.kind == TEST:
        return True
    if trial.case_index is not None and not 0 <= trial.case_index < len(plan.cases):
        return False
    if trial.kind != WINDOW or trial.block is None or not blocks:  # advice numbers its own blocks
        return True
    if not 0 <= trial.block < len(blocks) or trial.case_index not in blocks[trial.block]:
        return False
    return trial.round is not None and 1 <= trial.round <= plan.rule.counts[-1]


@dataclass(frozen=True)
class Run:
    """One run with its records of a suite; `incomplete_because` is None if it is complete."""

    folder: Path
    records: Sequence[Record]
    incomplete_because: str | None

    @property
    def has_rate(self) -> bool:
        """Whether any record has a rate."""
        return any(record.result.rate for record in self.records)


def newest_of_suite(suite: str) -> tuple[Run | None, list[str]]:
    """Return the run that represents a suite, and why it or newer runs are incomplete.

    It is the newest run with figures and a record of every planned case; if there is none, the
    newest run with figures; else the newest run. None if there is no run.
    """
    found: list[Run] = []
    for folder in sorted(_folders(suite), key=lambda path: path.name, reverse=True):
        found.append(read_suite_run(folder, suite))
        if found[-1].incomplete_because is None:
            break
    if not found:
        return None, []
    best = min(
        found, key=lambda run: (run.incomplete_because is not None, not run.has_rate)
    )  # newest of equals
    newer = found[: found.index(best) + 1]
    return best, [
        f"{run.folder.name} {run.incomplete_because}"
        for run in newer
        if run.incomplete_because is not None
    ]


def newest_unfinished() -> Path:
    """Find the newest run with due rounds or long runs; raise StorageError if there is none."""
    planned = (path.parent for path in RESULTS.glob(f"*/{RUN_FILE}"))
    for folder in sorted(planned, key=lambda path: path.name, reverse=True):
        if is_example(folder) or not has_plan(folder):
            continue
        with suppress(StorageError):  # it has another plan, or records that cannot be read
            if is_due(load_plan(folder), folder):
                return folder
    raise StorageError(f"no unfinished run in {RESULTS}", "start one by offload run_all_load_tests")


def is_due(planned: Plan, folder: Path) -> bool:
    """Whether a round or a long run of a plan is missing from its folder."""
    return planned.next_step(read_planned_if_any(folder, planned)) is not None


def find_run(run: str) -> Path:
    """Find a run by its folder's name or path; it may have a plan and no records yet."""
    folder = _folder(run)
    return folder if folder is not None and is_file(folder / RUN_FILE) else named(run)


def read_suite_run(folder: Path, suite: str) -> Run:
    """Read a run's records of a suite."""
    records = [record for record in read_planned(folder) if record.trial.suite == suite]
    run = Run(folder, records, None)
    if not _is_finished(run):
        return Run(folder, records, f"is unfinished: offload resume {folder.name}")
    return run if run.has_rate else Run(folder, records, "has no figures")


def _folders(suite: str) -> list[Path]:
    name = re.compile(rf"\d{{8}}-\d{{6}}-{re.escape(suite)}(-\d+)?")
    return [folder for folder in folders() if name.fullmatch(folder.name)]


def _is_finished(run: Run) -> bool:
    """Whether every case of a run's plan has a record; a run without a plan is finished."""
    try:
        planned = load_plan(run.folder).cases
    except StorageError:
        return True
    return {case.key for case in planned} <= {record.key for record in run.records}


BASELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
PREFIX = "baseline-"
KEPT = (FILE, COMPRESSED, RUN_FILE, QUESTION, "results.txt")


def keep_baseline(name: str, run: Path) -> Path:
    """Copy a run's records to the baseline `name`, which is replaced; return its folder.

    Raise RunError if no case of the run has a rate.
    """
    if BASELINE_NAME.fullmatch(name) is None:
        form = "letters, digits, '.', '_' and '-', such as main or v1.2"
        raise UsageError(f"name={name[:100]!r} is not the name of a baseline", f"use {form}")
    if not any(record.result.rate for record in read(run)):
        raise RunError(f"{run.name} has no rates", "name another run by run=")
    folder = RESULTS / f"{PREFIX}{name}"
    new, old = (RESULTS / f".{part}-{name}.{os.getpid()}" for part in ("new", "old"))
    try:
        new.mkdir()
        for file in KEPT:
            if (run / file).exists():
                shutil.copyfile(run / file, new / file)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    except OSError as error:
        what = f"{folder}: {error.strerror}"
        raise StorageError(what, "check permissions and disk space") from error
    finally:
        if old.exists() and not folder.exists():
            old.rename(folder)
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    return folder


def baseline_names() -> list[str]:
    """Return the names of all baselines."""
    found = (folder.name for folder in folders() if folder.name.startswith(PREFIX))
    return sorted(name.removeprefix(PREFIX) for name in found)


def find_baseline(name: str) -> Path:
    """Find a baseline, or else a run, by its name; raise StorageError if there is none."""
    folder = RESULTS / f"{PREFIX}{name}"
    if is_name(name) and has_records(folder):
        return folder
    try:
        return named(name)
    except StorageError:
        known = f"there are {', '.join(baseline_names())}" if baseline_names() else "there is none"
        what = f"no baseline {name[:100]!r} in {RESULTS}: {known}"
        raise StorageError(what, "offload baseline NAME keeps the newest run") from None
