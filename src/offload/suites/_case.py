"""A case: what is measured, the request of its users, where it runs, and how people write it."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from offload.errors import MachineError, UsageError
from offload.loads import BODY_MARK, MASK, Message, Sender, body_facts, mask_query, parse_headers
from offload.registry import catalog, entries, places
from offload.registry.entries import Entry

SHOWN_BODY = 40  # characters of a body in its short form


@dataclass(frozen=True)
class Request:
    """One request; a body that looks like JSON is sent as JSON, any other body as a form.

    `header` contains one or more headers: `A: 1; B: 2`. Files contain only the values of harmless
    headers and parameters; other values are masked. The body of a user's request, which is
    `private`, is replaced by its hash there. `beside` is the path of a light route that is also
    requested, sparsely, while the users send this request.
    """

    path: str = "/"
    method: str = "GET"
    body: str | None = None
    header: str | None = None
    private: bool = field(default=False, compare=False)
    beside: str | None = None

    @property
    def message(self) -> Message:
        """The method, body and headers that load tools send; raise UsageError if invalid."""
        return Message(self.method, self.body, parse_headers(self.header or ""))

    @property
    def is_masked(self) -> bool:
        """Whether it was read from a file in which a value or the body is masked."""
        is_hash = (self.body or "").startswith(BODY_MARK)
        values = self.message.headers.values()
        paths = f"{self.path} {self.beside or ''}"
        return is_hash or MASK in values or f"={MASK}" in paths

    @property
    def masked(self) -> Mapping[str, object]:
        """The fields as written to files; `header` and `beside` are absent if there are none."""
        facts = asdict(self)
        del facts["private"]
        if self.beside is None:
            del facts["beside"]
        else:
            facts["beside"] = mask_query(self.beside)
        facts["path"] = mask_query(self.path)
        if self.private and self.body is not None:
            facts["body"] = body_facts(self.body)
        if self.header is None:
            del facts["header"]
        else:
            shown = self.message.masked().headers.items()
            facts["header"] = "; ".join(f"{name}: {value}" for name, value in shown)
        return facts

    @property
    def key(self) -> tuple[object, ...]:
        """The identity of a request."""
        return tuple(self.masked.values())

    @property
    def short_form(self) -> str:
        """The short form: `POST /graphql {"query": "{ hello }"}`."""
        facts = self.masked
        body = str(facts["body"] or "")
        shown = body if len(body) <= SHOWN_BODY else f"{body[: SHOWN_BODY - 3]}..."
        return " ".join(word for word in (self.method, str(facts["path"]), shown) if word)


@dataclass(frozen=True)
class Placement:
    """The `hosts` that send the load by SSH (none: this machine), and CPUs (none: all).

    With CPUs the server and the load tool have disjoint sets of them.
    """

    hosts: tuple[str, ...] = ()
    server_cpus: tuple[int, ...] = ()
    load_cpus: tuple[int, ...] = ()

    @property
    def sender(self) -> Sender:
        """The sender of the load; it may only be sent to this machine."""
        return Sender(self.hosts, self.load_cpus)

    @property
    def pin(self) -> str | None:
        """The CPUs of the server and of the load tool: 0-2/3."""
        if not self.load_cpus:
            return None
        return f"{ranges(self.server_cpus)}/{ranges(self.load_cpus)}"

    @property
    def label(self) -> str:
        """The difference from a load that this machine sends from any CPU, to add to a case."""
        sent = f" load from {'+'.join(self.hosts)}" if self.hosts else ""
        return sent + (f" pin={self.pin}" if self.pin else "")


ANYWHERE = Placement()


@dataclass(frozen=True)
class Origin:
    """Another checkout or environment; `label` names it as the user wrote it.

    `toolkit` is a checkout of this toolkit: the server imports its `src`. `folder` is the working
    folder of the server, and `search` lists the folders from which it imports first. `python` is
    the interpreter of an environment that has all packages. None means: as without an origin.
    """

    label: str
    toolkit: str | None = None
    folder: str | None = None
    search: tuple[str, ...] = ()
    python: str | None = None


QUICK_S = 4.0  # duration of the long run with quick; the short runs give the interval


@dataclass(frozen=True)
class Case:
    """A server, a task and a load; `settings` are keyword arguments of the server's `serve`.

    `task` may also be a user's application: `app=shop.web:app`. `users` is the number of concurrent
    users and `seconds` the duration of the long run; with `keep_alive` each user keeps its
    connection. `python` is the server's interpreter, a name or a path (None: this one). `path` is
    a folder from which a user's task or application imports. Users send `request` (default:
    `GET /`). With `requests` the long run has that number of requests instead of a duration.
    `clients` is the number of load processes. `in_quick` contains the fields that `quick` changes
    besides the duration of the long run (None: see `quick`). `slots` is the number of requests
    that each server process handles concurrently (None: unlimited, or reported by the server).
    `origin` is where the server starts from (None: this checkout and environment). `placement` is
    where the load is sent from, and the CPUs of both sides. `variables` are environment variables
    of the server's processes, such as MALLOC_ARENA_MAX.
    """

    server: str
    task: str
    users: int = 25
    seconds: float = 20.0
    keep_alive: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)
    python: str | None = None
    path: str | None = None
    request: Request | None = None
    requests: int | None = None
    clients: int = 1
    in_quick: Mapping[str, object] | None = None
    slots: int | None = None
    origin: Origin | None = None
    placement: Placement = ANYWHERE
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[object, ...]:
        """The identity of this case: its id and its load, which is always a closed loop."""
        request = () if self.request is None else self.request.key
        return (self.id, self.users, self.keep_alive, None, *request)

    @cached_property
    def id(self) -> str:
        """Server, settings, interpreter, task and origin: `threads(workers=16)/sleep_sync`.

        It does not depend on the server's alias on the command line.
        """
        pairs = ",".join(f"{key}={self.settings[key]}" for key in sorted(self.settings))
        settings = f"({pairs})" if pairs else ""
        python = f"@{self.python}" if self.python else ""
        path = f" path={self.path}" if self.path else ""
        place = self.placement.label
        more = f"{self._from}{place}{self._variables}"
        return f"{self.server}{settings}{python}/{self.task}{path}{more}"

    @property
    def name(self) -> str:
        """The short form: `3/sleep_sync`, `3x2x16-protected@3.14/sleep_sync` with settings."""
        server = catalog.find_server(self.server)
        spelling = server.spelling(self.task)
        size = self.settings.get(server.size or "")
        workers = "" if size is None else f"x{size}"
        if {"workers", "processes"} <= self.settings.keys():
            workers = f"x{self.settings['processes']}x{self.settings['workers']}"
        protect = "-protected" if self.settings.get("protect") == "yes" else ""
        python = f"@{self.python}" if self.python else ""
        request = f" {self.request.short_form}" if self.request else ""
        task = places.display_name(self.task)
        if self.origin is not None and self.origin.folder is not None:
            task = task.replace(f"{self.origin.folder}{os.sep}", "")
        place = self.placement.label
        more = f"{self._from}{place}{self._variables}"
        return f"{spelling}{workers}{protect}{python}/{task}{request}{more}"

    @property
    def _from(self) -> str:
        return f" from {self.origin.label}" if self.origin else ""

    @property
    def _variables(self) -> str:
        return "".join(f" {name}={text}" for name, text in sorted(self.variables.items()))

    @cached_property  # reads the files of all servers, and a run uses it thousands of times
    def words(self) -> tuple[str, ...]:
        """The words of the command that starts this server: `run_server`, `3`, `sleep_sync`."""
        server = catalog.find_server(self.server)
        spelling = server.spelling(self.task)
        arguments = [spelling] if spelling in server.also else [spelling, self.task]
        arguments += [f"{key}={value}" for key, value in self.settings.items()]
        arguments += [f"python={self.python}"] if self.python else []
        arguments += [f"path={self.path}"] if self.path else []
        return ("run_server", *arguments)

    @property
    def command(self) -> str:
        """The words in the spelling of labels: `run_server:3,sleep_sync`."""
        return f"{self.words[0]}:{','.join(self.words[1:])}"

    def quick(self) -> Case:
        """Shorten the long run to 4 s, and reduce the users to 2 on a server without workers.

        A server without workers handles requests sequentially: the warm-up of 25 users would take
        most of the time. A case with `in_quick` keeps its users unless `in_quick` changes them.
        """
        if self.in_quick is not None:
            changed: dict[str, Any] = {"seconds": QUICK_S, **self.in_quick}
            return replace(self, **changed)
        has_workers = catalog.find_server(self.server).size == "workers"
        return replace(self, seconds=QUICK_S, users=self.users if has_workers else 2)


# The syntax of a case: `3/sleep_sync`, `3x16@3.14/sleep_sync`, `loop/shop.pricing:quote`;
# `3x2x16/sleep_sync` has 2 processes of 16 workers, `3-protected/sleep_sync` protect=yes. A user's
# application replaces the task: `uvicorn_httptools/app=shop.web:app`.

PATTERN = re.compile(
    r"(?P<server>\w+?)(?:x(?P<processes>\d{1,9}))??(?:x(?P<workers>\d{1,9}))?(?P<protect>-protected)?"
    r"(?:@(?P<python>[^/]+))?/(?P<task>.+)"
)
WITH_USERS = re.compile(r"(?P<name>.+) with (?P<users>\d+) users")  # a name in `unique_names`
FORM = "SERVER/TASK, as 3/sleep_sync or 3x2x32/shop.py:quote: offload help case explains it"


def parse_case(text: str, which: str = "case") -> Case:
    """Parse a case; raise UsageError if it is invalid or its server or task is unknown.

    `which` names the case in the error if `text` is empty, such as "second case".
    """
    if not text:
        raise UsageError(f"no {which} given", f"a case is {FORM}")
    found = PATTERN.fullmatch(text)
    if found is None:
        fix = f"write 3/{text} for threads" if catalog.is_own(text) else f"a case is {FORM}"
        raise UsageError(f"{text!r} is not a case", fix)
    try:
        server = catalog.find_server(found["server"])
    except UsageError:
        if os.path.isfile(text.rpartition(":")[0]):  # noqa: PTH113 - long names raise nothing
            raise UsageError(f"{text!r} is not a case", f"write 3/{text} for threads") from None
        raise
    task = catalog.find_task(found["task"]).name
    settings = _sizes(text, server, found["processes"], found["workers"])
    if found["protect"]:
        if "protect" not in server.settings:
            raise UsageError(f"{text!r}: {server.name} has no protection", "leave -protected out")
        settings["protect"] = "yes"
    catalog.check_work(server, task)
    return Case(server.name, task, settings=settings, python=found["python"])


def _sizes(text: str, server: Entry, processes: str | None, size: str | None) -> dict[str, object]:
    """Return the settings of `xSIZE` or `xPROCESSESxWORKERS`; raise UsageError."""
    settings: dict[str, object] = {}
    if size is not None and server.size is None:
        raise UsageError(f"{text!r}: {server.name} has no workers", "leave x out")
    if size is not None:
        settings[server.size or ""] = int(size)
    if processes is not None:
        if "processes" not in server.settings:
            raise catalog.without_processes(server)
        if "workers" not in server.settings:
            what = f"{text!r}: {server.name} has one size, its processes"
            raise UsageError(what, f"write {server.name}x{processes}")
        settings = {"processes": int(processes), "workers": int(size or 0)}
    for key, number in settings.items():
        most = entries.maximum(key, server.settings[key])
        if not 1 <= int(str(number)) <= most:
            raise UsageError(f"{text!r}: {key} must be from 1 to {most}")
    entries.check_product(settings, server.settings)
    return settings


def find_case(text: str, cases: Sequence[Case], where: str) -> int:
    """Return the index of the case that `text` names; raise UsageError for none or several.

    A case may have its name in `unique_names`. A user's function may be named without its module,
    such as 3/quote for 3/shop.pricing:quote. Workers and interpreter may be omitted. `where` names
    the list of cases in errors.
    """
    names = unique_names(cases)
    if text in names:
        return names.index(text)
    with_users = WITH_USERS.fullmatch(text)
    users = None if with_users is None else int(with_users["users"])
    found = PATTERN.fullmatch(text if with_users is None else with_users["name"])
    if found is None:
        raise catalog.unknown(where, text, names)
    server = catalog.find_server(found["server"])
    alike = [
        index
        for index, case in enumerate(cases)
        if case.server == server.name
        and found["task"] in _spellings(case)
        and found["workers"] in (None, str(case.settings.get(_size_of(server, found) or "")))
        and found["processes"] in (None, str(case.settings.get("processes", "")))
        and found["python"] in (None, case.python)
        and users in (None, case.users)
        and (found["protect"] is not None) == (case.settings.get("protect") == "yes")
    ]
    if len(alike) > 1:
        several = ", ".join(names[index] for index in alike)
        raise UsageError(f"{text!r} names several of {where}", f"it may be {several}")
    if not alike:
        raise catalog.unknown(where, text, names)
    return alike[0]


def _size_of(server: Entry, found: re.Match[str]) -> str | None:
    """Return the setting of the last size of a case: `workers`, if it has two."""
    return server.size if found["processes"] is None else "workers"


def unique_names(cases: Sequence[Case]) -> list[str]:
    """Return unique names of cases: cases with equal names also have their users or a number."""
    count = Counter(case.name for case in cases)
    found = [
        f"{case.name} with {case.users} users" if count[case.name] > 1 else case.name
        for case in cases
    ]
    if len({*found}) == len(found):
        return found
    return [f"{name} ({number})" for number, name in enumerate(found, 1)]


def _spellings(case: Case) -> set[str]:
    """Return the accepted names of a case's task: as displayed, and each end of its path.

    The last one is the name of its function. The ends do not depend on the current folder, because
    a name in a kept condition must remain valid in other folders.
    """
    task, shown = case.task, places.display_name(case.task)
    parts = task.split("/")
    ends = {"/".join(parts[number:]) for number in range(len(parts))}
    function = catalog.split_inputs(task)[0].rpartition(":")[2]
    applications = {name.removeprefix(catalog.PREFIX) for name in (task, shown)}
    return {shown, function, *ends, *applications}


# The CPUs of the server and of the load tool: pin=0-2/3

PIN_FORM = "pin=yes, or the CPUs of the server and of the load tool, as pin=0-2/3 or pin=0+1/2+3"
LARGEST_CPU = 4095  # number of a CPU


def parse_pin(text: str, available: Sequence[int], processes: int = 1) -> Placement:
    """Return the CPUs of `pin=`; raise UsageError, or MachineError if there are too few.

    `yes` assigns the last CPUs to the load tool, one for each of its `processes`, and the others to
    the server, at least one.
    """
    if len(available) < 2:
        count = len(available) or "no known"
        what = f"pin= needs two CPUs, and this process may use {count}"
        raise MachineError(what, "leave it out")
    if text == "yes":
        own = min(processes, len(available) - 1)
        return Placement((), tuple(available[:-own]), tuple(available[-own:]))
    server, slash, load = text.partition("/")
    parts = [_numbers(part, text) for part in (server, load)] if slash else []
    if not parts:
        raise UsageError(f"pin={text[:100]!r} is not a division of CPUs", f"write {PIN_FORM}")
    if both := {*parts[0]} & {*parts[1]}:
        what = f"pin={text[:100]!r} has CPU {min(both)} in both parts"
        raise UsageError(what, "use different CPUs for the server and the load tool")
    if missing := {*parts[0], *parts[1]} - {*available}:
        what = f"pin={text[:100]!r}: this process may not use CPU {min(missing)}"
        raise UsageError(what, f"it may use {ranges(available)}")
    return Placement((), *parts)


def ranges(cpus: Sequence[int]) -> str:
    """Return CPUs in the form of the option: 0-2+5."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return "+".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else str(r[0]) for r in runs)


def _numbers(part: str, text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for piece in part.split("+"):
        first, dash, last = piece.partition("-")
        words = (first, last if dash else first)
        if not all(w.isascii() and w.isdigit() and len(w) <= 4 for w in words):
            raise UsageError(f"pin={text[:100]!r} is not a division of CPUs", f"write {PIN_FORM}")
        low, high = (int(word) for word in words)
        if not low <= high <= LARGEST_CPU:
            raise UsageError(
                f"pin={text[:100]!r} has an invalid range of CPUs", f"write {PIN_FORM}"
            )
        found |= {*range(low, high + 1)}
    return tuple(sorted(found))
