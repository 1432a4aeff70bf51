"""The other side of a gate: the same cases, started from another checkout or environment."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from offload.engine import server
from offload.engine.server import (
    ALWAYS,
    GIL_SUFFIX,
    PYTHON_NAME,
    environment_for,
    find_interpreter,
    needs_of,
    no_pip,
)
from offload.errors import MachineError, StartError, StorageError, UsageError
from offload.registry import catalog, entries, places
from offload.suites import Case, Origin

VERSION = re.compile(r"[A-Za-z0-9][\w.-]*==[\w.+!]+", re.ASCII)
TOOLKIT = Path("src", "offload", "__init__.py")  # in a checkout of this toolkit
FORMS = "write against=../other, against=3.13 or against=tornado==6.4"
PROBE_TIMEOUT = 60.0  # s
MOST_NAMED = 5  # packages in a list of differences
# Prints what a server would import. It runs in the server's interpreter and folder, with the
# server's PYTHONPATH.
PROBE = """
import importlib.metadata, importlib.util, json, os, platform, sys
def file_of(name):
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return spec and (spec.origin or next(iter(spec.submodule_search_locations or ()), None))
toolkit = file_of("offload")
sys.path.insert(0, os.environ.get("TASK_PATH") or os.getcwd())
found = [*importlib.metadata.distributions()]
print(json.dumps({
    "python": platform.python_version(),
    "program": os.path.realpath(sys.executable),
    "gil": os.environ.get("PYTHON_GIL"),
    "toolkit": toolkit,
    "work": file_of(sys.argv[1]) if sys.argv[1] else None,
    "packages": {d.metadata["Name"]: d.version for d in reversed(found)},  # the first is imported
}))
"""


def counterparts(cases: Sequence[Case], against: str) -> list[Case]:
    """Return the same cases with servers that start from `against`; raise UserError.

    `against` is the folder of another checkout of the user's project, of this toolkit or of a venv;
    an interpreter as in `python=`; or a version of a package, such as tornado==6.4.
    """
    if VERSION.fullmatch(against):
        return [_with_package(case, cases, against) for case in cases]
    folder = None if PYTHON_NAME.fullmatch(against) else _folder(against)
    if folder is None:
        return [_with_interpreter(case, against) for case in cases]
    if (folder / "pyvenv.cfg").is_file():
        origin = Origin(against, python=str(folder / "bin" / "python"))
        return [replace(case, origin=origin) for case in cases]
    if (folder / TOOLKIT).is_file():
        return [_in_toolkit(case, against, folder) for case in cases]
    root = _root(folder)
    return [_in_project(case, against, root, folder) for case in cases]


def _with_package(case: Case, cases: Sequence[Case], requirement: str) -> Case:
    """Return a case that starts in an environment with the required version of a package."""
    alike = [each for each in cases if each.python == case.python]
    needs = sorted({need for each in alike for need in needs_of(each)})
    has_own = any(_module(each) is not None for each in alike)
    python = sys.executable if case.python is None else find_interpreter(case.python)
    created = create_environment(requirement, needs, python, has_own)
    return replace(case, origin=Origin(requirement, python=created))


def _with_interpreter(case: Case, word: str) -> Case:
    """Return a case that runs in another interpreter; raise UsageError if there is none."""
    try:
        find_interpreter(word)
    except UsageError:
        if PYTHON_NAME.fullmatch(word) or GIL_SUFFIX.fullmatch(word):
            raise
        what = f"against={word[:200]!r} is not a folder, an interpreter or a version of a package"
        raise UsageError(what, FORMS) from None
    return replace(case, python=word)


def _folder(text: str) -> Path | None:
    try:
        path = Path(text).expanduser().resolve()
        return path if path.is_dir() else None
    except (OSError, RuntimeError):  # the name is too long, or the user of ~user does not exist
        return None


def _in_toolkit(case: Case, label: str, folder: Path) -> Case:
    """Return a case whose server comes from another checkout of this toolkit."""
    here, root = Path.cwd(), places.CHECKOUT
    if root is None:
        return replace(case, origin=Origin(label, toolkit=str(folder)))
    start = _moved(here, root, folder) if here.is_relative_to(root) else here
    if not start.is_dir():
        raise UsageError(f"no folder {str(start)!r}", "start the command in a folder of both")
    moved = _moved_case(case, root, folder)
    return replace(moved, origin=Origin(label, toolkit=str(folder), folder=str(start)))


def _in_project(case: Case, label: str, root: Path, folder: Path) -> Case:
    """Return a case whose function or application comes from another checkout."""
    start = _moved(Path.cwd(), root, folder)
    if not start.is_dir():
        raise UsageError(f"no folder {str(start)!r}", "start the command in a folder of both")
    own = _imported_from(case)
    if own is None:
        what = f"{case.name} runs no code from {label}"
        raise UsageError(what, "choose cases with a function or an application of your own")
    if not own.is_relative_to(root):
        what = f"{case.name} is imported from {own}, outside of {root}, on both sides"
        raise UsageError(what, "start the command in the checkout that has it")
    # Servers add the folder of a file or of the task themselves. PYTHONPATH must not contain it,
    # because there a user's queue.py would hide the module of the standard library.
    is_found = own == places.task_folder(case.path) or str(_module(case)).endswith(".py")
    search = () if is_found else (str(_moved(own, root, folder)),)
    origin = Origin(label, folder=str(start), search=search)
    return replace(_moved_case(case, root, folder), origin=origin)


def _root(other: Path) -> Path:
    """Return the folder on this side that corresponds to `other`.

    It is the root of the repository if `other` is the root of one, else the current folder.
    """
    here = Path.cwd()
    if (other / ".git").exists():
        return next((each for each in (here, *here.parents) if (each / ".git").exists()), here)
    return here


def _moved(path: Path, root: Path, other: Path) -> Path:
    return other / path.relative_to(root) if path.is_relative_to(root) else path


def _moved_case(case: Case, root: Path, other: Path) -> Case:
    """Return a case whose file and import folder are in the other checkout."""
    path = None if case.path is None else str(_moved(Path(case.path), root, other))
    if catalog.is_application(case.task):
        spelling = catalog.parse_application(case.task)
        if not spelling.is_file:
            return replace(case, path=path)
        file = _moved_file(spelling.where, root, other)
        return replace(case, path=path, task=spelling.with_file(file))
    task, given = catalog.split_inputs(case.task)
    where, colon, function = task.rpartition(":")
    if not where.endswith(".py"):
        return replace(case, path=path)
    moved = f"{_moved_file(where, root, other)}{colon}{function}"
    return replace(
        case, path=path, task=moved if given is None else catalog.join_inputs(moved, given)
    )


def _moved_file(where: str, root: Path, other: Path) -> Path:
    """Return the file in the other checkout; raise UsageError if it is not there."""
    path = _moved(Path(where), root, other)
    if not path.is_file():
        raise UsageError(f"no file {str(path)!r} to compare with", "choose cases of both checkouts")
    return path


def _imported_from(case: Case) -> Path | None:
    """Return the folder from which a user's function or application is imported.

    None if the work is not the user's own, or not found.
    """
    where = _module(case)
    if where is None:
        return None
    if where.endswith(".py"):
        return Path(where).parent
    for folder in (str(places.task_folder(case.path)), *sys.path):
        if entries.module_file(where, [folder]) is not None:
            return Path(folder or ".").resolve()
    spec = importlib.util.find_spec(where.partition(".")[0])  # an editable package may have a hook
    is_package = spec is not None and bool(spec.submodule_search_locations)
    origin = None if spec is None else spec.origin
    return None if origin is None else Path(origin).resolve().parents[int(is_package)]


def _module(case: Case) -> str | None:
    """Return the module or the file of a user's own work; None for tasks of ours."""
    if catalog.is_application(case.task):
        return catalog.parse_application(case.task).where
    return catalog.split_inputs(case.task)[0].rpartition(":")[0] or None


def differences(cases: Sequence[Case], others: Sequence[Case]) -> list[str]:
    """Return the differences between `cases` and `others`, as text for reports.

    Raise UsageError if a case has none, so that a gate never compares a case with itself.
    """
    found: dict[str, None] = {}
    for case, other in zip(cases, others, strict=True):
        own = _differences(_facts(case), _facts(other))
        if not own:
            what = f"{case.name} runs the same code on both sides"
            raise UsageError(what, "name another checkout, interpreter or version by against=")
        found |= dict.fromkeys(own)
    return [*found]


def _facts(case: Case) -> Mapping[str, Any]:
    """Return what a case's server would import, reported by its interpreter; raise StartError."""
    argv, environment = server.command(case, port=0)
    environment |= environment_for(case, argv[0])
    where = _module(case) or ""
    is_file = where.endswith(".py")
    folder = None if case.origin is None else case.origin.folder
    start = folder or str(Path.cwd())
    name = "" if is_file else where.partition(".")[0]
    facts = _probe(argv[0], name, start, tuple(environment.items()))
    return {**facts, "work": where} if is_file else facts


@cache
def _probe(
    python: str, module: str, folder: str, environment: tuple[tuple[str, str], ...]
) -> Mapping[str, Any]:
    try:
        done = subprocess.run(
            [python, "-P", "-c", PROBE, module],
            env={**os.environ, **dict(environment)},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        raise _no_start(python, f"no output within {PROBE_TIMEOUT:.0f} s") from None
    except OSError as error:
        raise _no_start(python, str(error.strerror)) from None
    try:  # a .pth file of the environment may print, too
        facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        printed = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise _no_start(python, printed[-1][:200]) from None
    return facts


def _no_start(python: str, why: str) -> StartError:
    return StartError(f"{python} does not start ({why})", "name another by against=")


def _differences(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    found = []
    for key, depth in (("toolkit", 2), ("work", 0)):
        if now[key] != before[key]:
            here, there = (_described(each[key], depth) for each in (now, before))
            found.append(f"{here} instead of {there}")
    if any(now[key] != before[key] for key in ("python", "program", "gil")):
        is_same = now["python"] == before["python"]
        here, there = (_python(each, with_program=is_same) for each in (now, before))
        found.append(f"{here} instead of {there}")
    found += _changed(now["packages"], before["packages"])
    return found or _added(now["packages"], before["packages"])


def _described(file: str | None, depth: int) -> str:
    """Return the parent folder of a file, `depth` levels up, with its commit if it has one."""
    if file is None:
        return "nothing"
    folder = Path(file).parents[depth]
    words = ["git", "-C", str(folder), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=PROBE_TIMEOUT)
    except (OSError, subprocess.SubprocessError):
        return str(folder)
    commit = done.stdout.strip()
    return f"{folder} ({commit})" if done.returncode == 0 and commit else str(folder)


def _python(facts: Mapping[str, Any], with_program: bool) -> str:
    state = {"0": ", GIL off", "1": ", GIL on"}.get(facts["gil"] or "", "")
    program = f" at {facts['program']}" if with_program else ""
    return f"Python {facts['python']}{program}{state}"


def _changed(now: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    """Return the packages that both sides have in different versions."""
    names = sorted(now.keys() & before.keys() - OURS)
    return _some([f"{n} {now[n]} instead of {before[n]}" for n in names if now[n] != before[n]])


def _added(now: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    """Return the packages that only one side has."""
    names = sorted(now.keys() ^ before.keys())
    return _some(
        [
            f"{name} {now[name]} instead of none"
            if name in now
            else f"no {name} instead of {before[name]}"
            for name in names
            if name.lower() not in OURS
        ]
    )


def _some(found: Sequence[str]) -> list[str]:
    """Return the first of many differences, and how many more there are."""
    if len(found) <= MOST_NAMED:
        return [*found]
    return [*found[:MOST_NAMED], f"{len(found) - MOST_NAMED} more packages"]


INSTALL_TIMEOUT = 900.0  # s for an installation
COMPLETE = "complete"  # a file in an environment that has all of its packages
OURS = {"offload", "pipepool", "pip", "setuptools", "wheel"}  # never pinned


def create_environment(
    requirement: str, needs: Sequence[str], python: str, has_own_work: bool
) -> str:
    """Return the interpreter of an environment that has `requirement`, such as tornado==6.4.

    It is a venv of the interpreter `python` without the system's packages. It has the packages that
    our servers need and those in `needs`, which are import names. With `has_own_work` it has all
    packages of this environment, because the imports of a user's function are unknown. Packages of
    this environment have the same version there. Raise UsageError if the required version does not
    exist or conflicts with other packages, and MachineError if no package index is reachable.
    """
    if _normal(requirement) in OURS:
        what = f"{requirement} is not a package that a server imports from its environment"
        raise UsageError(what, "name another checkout of this toolkit: against=path/to/checkout")
    wanted = _wanted(requirement, needs, has_own_work)
    folder = _environment_folder(requirement, wanted, python)
    with _lock(folder):
        if not ((folder / COMPLETE).exists() and (folder / "bin" / "python").exists()):
            shutil.rmtree(folder, ignore_errors=True)
            print(f"installing {requirement} in {folder}", file=sys.stderr, flush=True)
            try:
                _fill_environment(folder, requirement, wanted, python)
                (folder / COMPLETE).touch()
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
    return str(folder / "bin" / "python")


def _wanted(requirement: str, needs: Sequence[str], has_own_work: bool) -> list[str]:
    """Return the requirements of the other packages, with the versions of this environment."""
    own, here = _normal(requirement), _installed()
    lines = places.lines_for((*ALWAYS, *needs))
    names = {_normal(line): line for line in lines}
    if has_own_work:
        names |= {name: name for name in here}
    names.pop(own, None)
    return sorted(f"{name}=={here[name]}" if name in here else names[name] for name in names)


def _installed() -> dict[str, str]:
    """Return the versions of this environment's packages that a package index has, by name."""
    found: dict[str, str] = {}
    for each in metadata.distributions():
        name = _normal(each.metadata["Name"] or "")
        if name and name not in OURS and not _is_from_url(each):
            found.setdefault(name, each.version)
    return found


def _is_from_url(distribution: metadata.Distribution) -> bool:
    """Whether a package was installed from a folder, a repository or a file, not from an index."""
    return bool(distribution.read_text("direct_url.json"))


def _normal(requirement: str) -> str:
    """Return the normalized name of a requirement, by PEP 503."""
    name = re.split(r"[^\w.-]", requirement.strip())[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def _environment_folder(requirement: str, wanted: Sequence[str], python: str) -> Path:
    lines = "\n".join([requirement, *wanted, str(Path(python).resolve())])
    digest = hashlib.sha256(lines.encode()).hexdigest()[:8]
    name = re.sub(r"[^\w.-]+", "-", requirement)
    return places.cache() / "environments" / f"{name}-{digest}"


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Let one process at a time create an environment."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder.with_name(f"{folder.name}.lock"), os.O_RDWR | os.O_CREAT)
    except OSError as error:
        what = f"{folder.parent}: {error.strerror}"
        raise StorageError(what, "check permissions and disk space") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _fill_environment(folder: Path, requirement: str, wanted: Sequence[str], python: str) -> None:
    """Create a venv and install the packages; raise UsageError or MachineError."""
    if importlib.util.find_spec("pip") is None:
        raise no_pip()
    venv = _run([python, "-m", "venv", "--without-pip", str(folder)])
    if venv is not None:
        raise MachineError(f"{python} cannot create a venv ({venv})", "install its module venv")
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
    pip += ["--quiet", "--disable-pip-version-check", "--no-input", "--retries", "1"]
    pip += ["--no-user"]  # pip.conf may have user = true
    constraints = folder / "constraints.txt"
    own = _normal(requirement)
    pinned = [f"{name}=={known}" for name, known in _installed().items() if name != own]
    constraints.write_text("\n".join(pinned))
    # If the required version needs other versions of its dependencies, these may differ, too.
    if _run([*pip, "--constraint", str(constraints), requirement, *wanted]) is None:
        return
    problem = _run([*pip, requirement, *wanted])
    if problem is None:
        return
    name = requirement.partition("==")[0]
    if _run([*pip, "--dry-run", "--no-deps", "--ignore-installed", name]) is not None:
        fix = "connect to one, or name an environment that exists: against=path/to/venv"
        raise MachineError(
            f"{requirement} cannot be installed: no package index with {name} is reachable", fix
        )
    raise UsageError(f"{requirement} cannot be installed ({problem})", "name another version")


def _run(argv: list[str]) -> str | None:
    """Run a program; return None, or the last line that it printed if it fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=INSTALL_TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"it took longer than {INSTALL_TIMEOUT:.0f} s"
    except OSError as error:
        return str(error.strerror)
    if done.returncode == 0:
        return None
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1].removeprefix("ERROR: ") if lines else f"exit code {done.returncode}"
