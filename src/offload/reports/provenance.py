"""The place a record was measured at: machine, Python and upstream, which one table never mixes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from offload.bench.records.record import Record

MACHINE = ("cpu", "cores", "kernel", "virtualisation")
PYTHON = ("python", "implementation", "free_threaded_build", "gil_enabled")

SWITCHED = {"1": ", GIL on", "0": ", GIL off"}  # by PYTHON_GIL

Place = tuple[object, ...]
T = TypeVar("T")


def of(record: Record) -> Place:
    """Give the place of a record: what of it is not known is None."""
    machine = tuple(record.environment.get(name) for name in MACHINE)
    python = tuple(record.server.interpreter.get(name) for name in PYTHON)
    return (
        machine if any(machine) else None,
        python if any(python) else None,
        None if record.case.upstream is None else tuple(record.case.upstream.values()),
    )


def python(record: Record) -> str:
    """Name the Python that a server ran in: `3.11.7`, or `3.13.5t, GIL on` by PYTHON_GIL."""
    facts = record.server.interpreter
    if not facts.get("free_threaded_build"):
        return str(facts.get("python"))
    return f"{facts.get('python')}t{SWITCHED.get(str(facts.get('python_gil')), '')}"


def loaded(record: Record) -> str:
    """Name it as it was after the load: `3.13.5t, its GIL off`, or `3.11.7`."""
    if not record.server.interpreter.get("free_threaded_build"):
        return python(record)
    state = "on" if record.server.interpreter.get("gil_enabled") else "off"
    return f"{python(record).partition(',')[0]}, its GIL {state}"


def gil_came_on(record: Record) -> str | None:
    """Say who turned the GIL on in a build without it; None when nobody did, or by PYTHON_GIL."""
    facts = record.server.interpreter
    is_expected = not facts.get("free_threaded_build") or facts.get("python_gil") == "1"
    if is_expected or not facts.get("gil_enabled"):
        return None
    return f"importing {facts['gil_enabled_by']}" if facts.get("gil_enabled_by") else "an import"


def divided(found: Sequence[T], place: Callable[[T], Place]) -> list[list[T]]:
    """Divide records or rows into groups of one place; what is not known fits everywhere."""
    groups: list[tuple[Place, list[T]]] = []
    for one in found:
        here = place(one)
        for number, (there, group) in enumerate(groups):
            if all(None in pair or pair[0] == pair[1] for pair in zip(here, there, strict=True)):
                both = tuple(b if a is None else a for a, b in zip(there, here, strict=True))
                groups[number] = (both, group)
                group.append(one)
                break
        else:
            groups.append((here, [one]))
    return [group for _, group in groups]
