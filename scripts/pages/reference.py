"""The generated parts of docs/reference.rst, from the docstrings of commands, servers and tasks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from lab import corpus as functions
from offload.cli import commands as registered
from offload.cli.program import OFFLOAD
from offload.documents.text import listing, wrapped
from offload.registry import catalog
from offload.registry.entries import Entry


def commands() -> str:
    """Return all commands by group, each with its help."""
    parts = []
    assert registered  # so that the program has its commands
    for group, names in OFFLOAD.groups.items():
        parts += [f"{group}\n{'~' * len(group)}", *(_command(name) for name in names)]
    return "\n\n".join(parts)


def _command(name: str) -> str:
    first, *others = OFFLOAD.docstring(name).split("\n\n")
    parts = [wrapped(f"**{name}**: {first[0].lower()}{first[1:]}")]
    texts = [each for each in others if not each.startswith("Example")]
    blocks = [each for each in others if each.startswith("Example")]
    options = "\n".join(OFFLOAD.options_by_group(name))
    for block in (*blocks, options):
        if block:
            texts.append(f"::\n\n{textwrap.indent(block, '    ')}")
    return "\n\n".join([*parts, *texts])


def servers() -> str:
    """Return all servers with their numbers, numbered servers first."""
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


def corpus() -> str:
    """Return all functions of the corpus by module, with their packages and folds."""
    folds = {name: number for number, fold in enumerate(functions.FOLDS, 1) for name in fold}
    by_module: dict[Path, list[Entry]] = {}
    for entry in functions.entries().values():
        by_module.setdefault(entry.path, []).append(entry)
    parts = []
    for path, entries in by_module.items():
        packages = ", ".join(entries[0].packages)
        parts.append(wrapped(f"**{path.stem}**" + (f" ({packages})" if packages else "")))
        names = [entry.name.removeprefix(functions.task_name("")) for entry in entries]
        ends = [f" *Fold {folds[name]}.*" if name in folds else "" for name in names]
        described = zip(names, entries, ends, strict=True)
        parts.append(_list((f"``{name}``", f"{e.summary}{end}") for name, e, end in described))
    return "\n\n".join(parts)


def _described(entries: Iterable[Entry]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        number = "" if entry.number is None else f" ({entry.number})"
        yield f"``{entry.name}``{number}", entry.summary.removeprefix(f"{entry.name}: ")
        for word, task in entry.also.items():
            yield f"``{word}``", f"``{entry.name}`` with ``{task}``."


def _list(items: Iterable[tuple[str, str]]) -> str:
    return listing([f"{name}: {text}" for name, text in items])
