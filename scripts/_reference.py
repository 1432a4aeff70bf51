"""The generated parts of docs/reference.rst: what the commands and the registry say themselves."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator

from offload.cli import program
from offload.registry import catalog
from offload.registry.entries import Entry
from offload.reports.tables import text_table

OPTION = re.compile(r"[a-z_]+  +\S")  # the first line of an option in a docstring


def commands() -> str:
    """Return all commands by group, each with its help."""
    parts = []
    for group, names in program.GROUPS.items():
        parts += [f"{group}\n{'~' * len(group)}", *(_command(name) for name in names)]
    return "\n\n".join(parts)


def _command(name: str) -> str:
    first, *others = inspect.cleandoc(program.COMMANDS[name].__doc__ or "").split("\n\n")
    parts = [text_table.wrapped(f"**{name}**: {first[0].lower()}{first[1:]}")]
    for paragraph in others:
        if OPTION.match(paragraph):
            parts.append(f"::\n\n{textwrap.indent(paragraph, '    ')}")
        else:
            parts.append(paragraph)
    return "\n\n".join(parts)


def servers() -> str:
    """Return all servers with their numbers; the numbered ones are first."""
    return _list(_described(catalog.servers().values()))


def tasks() -> str:
    """Return all tasks, in the order of their files."""
    return _list(_described(catalog.tasks().values()))


def drivers() -> str:
    """Return all load drivers."""
    return _list(_described(catalog.drivers().values()))


def suites() -> str:
    """Return all suites."""
    return _list(_described(catalog.suites().values()))


def _described(entries: Iterable[Entry]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        number = "" if entry.number is None else f" ({entry.number})"
        yield f"``{entry.name}``{number}", entry.summary.removeprefix(f"{entry.name}: ")
        for word, task in entry.also.items():
            yield f"``{word}``", f"``{entry.name}`` with ``{task}``."


def _list(items: Iterable[tuple[str, str]]) -> str:
    return text_table.listing([f"{name}: {text}" for name, text in items])
