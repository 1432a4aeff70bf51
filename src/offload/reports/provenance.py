"""The provenance of a record: its machine, Python and upstream.

Records of different provenance are never in the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from offload.engine.record import Record

MACHINE = ("cpu", "cores", "kernel", "virtualisation")
PYTHON = ("python", "implementation", "free_threaded_build", "gil_enabled")

GIL_SETTINGS = {"1": ", GIL on", "0": ", GIL off"}  # by PYTHON_GIL

Provenance = tuple[object, ...]
T = TypeVar("T")


def provenance_of(record: Record) -> Provenance:
    """Return the provenance of a record; unknown parts are None."""
    machine = tuple(record.environment.get(name) for name in MACHINE)
    python = tuple(record.server.interpreter.get(name) for name in PYTHON)
    return (
        machine if any(machine) else None,
        python if any(python) else None,
        None if record.case.upstream is None else tuple(record.case.upstream.values()),
    )


def python_name(record: Record) -> str:
    """Return the Python of a server: `3.11.7`, or `3.13.5t, GIL on` if PYTHON_GIL is set."""
    facts = record.server.interpreter
    if not facts.get("free_threaded_build"):
        return str(facts.get("python"))
    return f"{facts.get('python')}t{GIL_SETTINGS.get(str(facts.get('python_gil')), '')}"


def python_after_load(record: Record) -> str:
    """Return the Python and its state after the load: `3.13.5t, its GIL off`, or `3.11.7`."""
    if not record.server.interpreter.get("free_threaded_build"):
        return python_name(record)
    state = "on" if record.server.interpreter.get("gil_enabled") else "off"
    return f"{python_name(record).partition(',')[0]}, its GIL {state}"


def gil_enabled_by(record: Record) -> str | None:
    """Return which import enabled the GIL in a free-threaded build; None if none did."""
    facts = record.server.interpreter
    is_expected = not facts.get("free_threaded_build") or facts.get("python_gil") == "1"
    if is_expected or not facts.get("gil_enabled"):
        return None
    return f"importing {facts['gil_enabled_by']}" if facts.get("gil_enabled_by") else "an import"


def group_by_provenance(items: Sequence[T], key: Callable[[T], Provenance]) -> list[list[T]]:
    """Group records or rows by provenance; unknown parts match everything."""
    groups: list[tuple[Provenance, list[T]]] = []
    for one in items:
        own = key(one)
        for number, (known, group) in enumerate(groups):
            if all(None in pair or pair[0] == pair[1] for pair in zip(own, known, strict=True)):
                merged = tuple(b if a is None else a for a, b in zip(known, own, strict=True))
                groups[number] = (merged, group)
                group.append(one)
                break
        else:
            groups.append((own, [one]))
    return [group for _, group in groups]
