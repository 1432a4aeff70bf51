"""The syntax of a case: `3/sleep_sync`, `3x16@3.14/sleep_sync`, `loop/shop.pricing:quote`.

`3x2x16/sleep_sync` has 2 processes of 16 workers, `3-protected/sleep_sync` protect=yes. A user's
application replaces the task: `uvicorn_httptools/app=shop.web:app`.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence

from offload.errors import UsageError
from offload.registry import catalog, entries, places
from offload.registry.entries import Entry
from offload.suites import Case

PATTERN = re.compile(
    r"(?P<server>\w+?)(?:x(?P<processes>\d{1,9}))??(?:x(?P<workers>\d{1,9}))?(?P<protect>-protected)?"
    r"(?:@(?P<python>[^/]+))?/(?P<task>.+)"
)
WITH_USERS = re.compile(r"(?P<name>.+) with (?P<users>\d+) users")  # a name in `unique_names`
FORM = "SERVER/TASK, as 3/sleep_sync, with x16 for workers and @3.14 for the interpreter"


def case(text: str, which: str = "case") -> Case:
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


def find(text: str, cases: Sequence[Case], where: str) -> int:
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
