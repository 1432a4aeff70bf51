"""Entries of the registry, read from their files without importing them.

Docstrings, constants and parameters are read from the syntax tree of a file. The parameters of a
server are its settings: the command line and the servers check the same limits of them.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.machinery import PathFinder
from pathlib import Path

from offload.errors import UsageError
from offload.registry import places
from offload.registry.places import display_path

REQUIRED = {"servers": ("serve", "serve(task, port)"), "loads": ("command", "command(load)")}
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
HTTP_SERVERS = ("uvicorn", "gunicorn", "granian", "hypercorn")  # packages that serve HTTP


@dataclass(frozen=True)
class Entry:
    """A server, task, driver or suite; `summary` is the first line of its docstring.

    `constants` are the literal constants of its file (NUMBER, NEEDS, PACKAGES, STABLE). `settings`
    are the keyword-only parameters of a server's `serve` with their defaults.
    """

    name: str
    path: Path
    summary: str
    constants: Mapping[str, object]
    settings: Mapping[str, object]
    module: str = ""  # the dotted name; empty for a task
    is_coroutine: bool = False  # an `async def`; unknown and False for a user's own task

    @property
    def short(self) -> str:
        """The short description of a task: its summary up to the first colon, if it has one."""
        return self.summary.partition(":")[0] if ":" in self.summary else ""

    @property
    def number(self) -> int | None:
        """The number of a server on the command line, if it has one."""
        number = self.constants.get("NUMBER")
        return number if isinstance(number, int) else None

    @property
    def also(self) -> Mapping[str, str]:
        """Other spellings of a server, each with the task that it runs."""
        also = self.constants.get("ALSO")
        return also if isinstance(also, dict) else {}

    @property
    def size(self) -> str | None:
        """The setting that a case has as xN: `workers`, or `processes` if it needs no workers."""
        names = ["workers", "processes"]
        if self.workers_are == "tokens":
            names.reverse()
        return next((name for name in names if name in self.settings), None)

    @property
    def accepts_in_processes(self) -> bool:
        """Whether several processes of a server may accept connections, and run what they get."""
        has_several = "processes" in self.settings or "EXTERNAL_WORKERS" in self.constants
        return has_several and "TASKS_ELSEWHERE" not in self.constants

    @property
    def needs(self) -> tuple[str, ...]:
        """The services that a task uses (upstream, internet), or a server's imported packages."""
        return self._names("NEEDS")

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages that a task imports, by their import names."""
        return self._names("PACKAGES")

    @property
    def serves(self) -> str | None:
        """The kind of a user's application that it serves: "asgi", "wsgi", "tornado"; else None."""
        kind = self.constants.get("SERVES")
        return kind if isinstance(kind, str) else None

    @property
    def strategy(self) -> str | None:
        """The strategy of advice that another server has, too; None if it has a different one."""
        strategy = self.constants.get("STRATEGY")
        return strategy if isinstance(strategy, str) else None

    @property
    def http_server(self) -> str | None:
        """The HTTP server of a server: declared, or a package that it needs; None if unknown."""
        declared = self.constants.get("HTTP_SERVER")
        if isinstance(declared, str):
            return declared
        return next((name for name in HTTP_SERVERS if name in self.needs), None)

    @property
    def workers_are(self) -> str | None:
        """The kind of workers of a server: threads, processes, greenlets or tokens (of anyio)."""
        if "workers" not in self.settings:
            return None
        return str(self.constants.get("WORKERS_ARE", "threads"))

    @property
    def can_preload(self) -> bool:
        """Whether a server can import a user's application before it forks its processes."""
        return "preload" in self.settings

    @property
    def needs_upstream(self) -> bool:
        """Whether a task fetches from the upstream."""
        return "upstream" in self.needs

    @property
    def needs_python(self) -> tuple[int, ...]:
        """The oldest Python that a server supports, as (3, 14); empty for any."""
        needs = self.constants.get("NEEDS_PYTHON")
        return needs if isinstance(needs, tuple) else ()

    def _names(self, constant: str) -> tuple[str, ...]:
        """Return a tuple or list of names; users may also write one name as a string."""
        names = self.constants.get(constant, ())
        each = [names] if isinstance(names, str) else names
        return tuple(map(str, each)) if isinstance(each, tuple | list) else ()

    def spelling(self, task: str) -> str:
        """Return the shortest spelling of a server with `task`: `2_group`, its number or name."""
        spellings = [word for word, also_task in self.also.items() if also_task == task]
        return spellings[0] if spellings else str(self.number or self.name)


def files(folder: Path) -> list[Path]:
    """Return the public modules of a folder, sorted by path.

    servers/ is searched recursively, because it has a sub-package for each family.
    """
    found = folder.glob("**/*.py" if folder.name == "servers" else "*.py")
    return sorted(p for p in found if NAME.fullmatch(p.stem) and p.stem[0] != "_")


def read_modules(folder: Path, function: str | None) -> dict[str, Entry]:
    """Return an entry for each file of a folder; with `function` only for files that define it."""
    return dict(_read_modules(folder, function, tuple(map(_version, files(folder)))))


def _version(path: Path) -> tuple[Path, int, int]:
    """Return a path with the time of its last change, in ns, and its size."""
    try:
        status = path.stat()
    except OSError:  # `parse_file` reports the error
        return path, 0, 0
    return path, status.st_mtime_ns, status.st_size


@functools.lru_cache(maxsize=16)  # a run looks up the same server thousands of times
def _read_modules(
    folder: Path, function: str | None, versions: tuple[tuple[Path, int, int], ...]
) -> dict[str, Entry]:
    found = {}
    for path, _, _ in versions:
        tree = parse_file(path)
        defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        if function is not None and function not in defined:
            continue
        settings = read_settings(path, defined[function]) if function else {}
        module = ".".join(["offload", *path.relative_to(folder.parent).with_suffix("").parts])
        constants = read_constants(tree)
        found[path.stem] = Entry(path.stem, path, read_summary(tree), constants, settings, module)
    return found


def find_incomplete(folder: Path) -> dict[str, str]:
    """Return an error message for each file that lacks its folder's required function, by name."""
    function, form = REQUIRED.get(folder.name, (None, ""))
    if function is None:
        return {}
    missing = [path for path in files(folder) if path.stem not in read_modules(folder, function)]
    fix = "define it, or start the file name with _"
    return {path.stem: f"{places.display_path(path)} has no {form}: {fix}" for path in missing}


def read_functions(path: Path) -> list[Entry]:
    """Return an entry for each public function of a task file, and for each alias of one."""
    tree = parse_file(path)
    constants = read_constants(tree)
    found: dict[str, Entry] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
            is_coroutine = isinstance(node, ast.AsyncFunctionDef)
            found[node.name] = Entry(
                node.name, path, read_summary(node), constants, {}, is_coroutine=is_coroutine
            )
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            original = found.get(node.value.id)
            for target in node.targets:
                if original and isinstance(target, ast.Name):
                    summary = f"Alias of {original.name}."
                    found[target.id] = replace(original, name=target.id, summary=summary)
    return list(found.values())


def parse_file(path: Path) -> ast.Module:
    """Parse a file; raise UsageError with the line number of a syntax error."""
    try:
        return _syntax(path.read_bytes(), str(path))
    except (OSError, SyntaxError, ValueError) as error:
        where = f"{display_path(path)}:{getattr(error, 'lineno', None) or 1}"
        raise UsageError(f"{where} cannot be read ({error})", "fix or remove the file") from None


@functools.lru_cache(maxsize=256)
def _syntax(content: bytes, name: str) -> ast.Module:
    """Parse a file's content; the result is cached for the same content."""
    return ast.parse(content, filename=name)


def read_summary(node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the first line of a docstring, or an empty string."""
    return (ast.get_docstring(node) or "").partition("\n")[0]


def read_constants(tree: ast.Module) -> dict[str, object]:
    """Return the literal constants of a file; their names are upper case."""
    found: dict[str, object] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name.isupper():
                try:
                    found[name] = ast.literal_eval(node.value)
                except (ValueError, TypeError):  # a computed constant is known only at run time
                    continue
    return found


def readable_constants(path: Path) -> dict[str, object]:
    """Return the literal constants of a user's file; none if this Python cannot parse it.

    The server, which may be run by another Python, reports a syntax error.
    """
    try:
        return read_constants(parse_file(path))
    except UsageError:
        return {}


def module_file(name: str, folders: Sequence[str]) -> Path | None:
    """Find the file of a dotted module in folders, without importing it or its packages.

    Return None if it is missing or not a Python file.
    """
    found = None
    for part in name.split("."):
        found = PathFinder.find_spec(part, folders) if part.isidentifier() else None
        if found is None:
            return None
        folders = list(found.submodule_search_locations or ())
    origin = None if found is None or not found.has_location else found.origin
    return Path(origin) if origin is not None and origin.endswith(".py") else None


# Settings


def read_settings(path: Path, node: ast.FunctionDef) -> dict[str, object]:
    """Return a function's keyword-only parameters and their literal defaults; raise UsageError.

    `guard` represents the settings of the protection.
    """
    pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    try:
        own = {arg.arg: None if value is None else ast.literal_eval(value) for arg, value in pairs}
    except (ValueError, TypeError):
        where = f"{display_path(path)}:{node.lineno}"
        raise UsageError(f"{where}: the default of a setting must be a literal") from None
    if GUARD not in own:
        return own
    del own[GUARD]
    return own | PROTECTION_DEFAULTS


GUARD = "guard"  # the parameter of a server that has protection
NO_PROTECTION = "not available"  # in the facts of a server that has no protection


@dataclass(frozen=True)
class GuardSettings:
    """The settings of a server's protection; times are in seconds.

    `health` adds /healthz, /readyz and /metrics, also without `protect`.
    """

    protect: str = "no"
    max_wait: float = 5.0
    task_timeout: float = 30.0
    max_connections: int = 2048
    health: str = "no"


PROTECTION_DEFAULTS = asdict(GuardSettings())
MAXIMA = {
    "workers": 256,
    "processes": 64,
    "runtime_threads": 256,
    "backlog": 65535,
    "max_connections": 65535,
}
YES_OR_NO = ("idempotent", "dask_isolate", "protect", "health", "reuse_port")
PRELOADS = ("yes", "no", "freeze")
SECONDS = ("max_wait", "task_timeout")
MIN_S, MAX_S = 0.1, 3600.0  # of SECONDS; with less than 0.1 s, a busy machine would time out
MOST_IN_ALL = 16  # times the maximum of `workers`, in all processes of a server


def maximum(key: str, default: object) -> int:
    """Return the largest number for a setting; a default may be larger than usual, as gevent's."""
    return max(MAXIMA.get(key, 65535), default if isinstance(default, int) else 0)


def check_product(settings: Mapping[str, object], defaults: Mapping[str, object]) -> None:
    """Raise UsageError if a server with both sizes would have too many workers in all processes.

    `settings` may lack sizes, which are then the `defaults`.
    """
    if not {"processes", "workers"} <= defaults.keys():
        return
    known = {**defaults, **settings}
    processes, workers = (int(str(known[key])) for key in ("processes", "workers"))
    most = MOST_IN_ALL * maximum("workers", defaults["workers"])
    if processes * workers > most:
        what = f"{processes} processes of {workers} workers are {processes * workers} workers"
        raise UsageError(what, f"use at most {most} in all processes")
