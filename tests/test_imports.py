"""Who may import whom: the arrows of the project, read from the imports of every file."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import catalog

ROOT = catalog.ROOT
BASE = {"catalog", "entries", "errors", "files", "requirements", "source"}
MAY_IMPORT = {
    "errors": set(),
    "files": set(),
    "source": {"errors"},
    "requirements": {"source"},
    "entries": {"source"},
    "catalog": {"entries", "errors", "source"},
    "spelling": BASE,
    "values": BASE,
    "upstream": BASE,
    "tasks": BASE,
    "servers": BASE | {"tasks"},
    "loads": BASE,
    "suites": BASE | {"loads"},
    "bench": BASE | {"suites", "loads", "upstream"},
    "reports": BASE | {"suites", "loads", "bench"},
    "commands": BASE | {"values", "suites", "loads", "bench", "reports"},
    "fabfile": BASE | {"spelling", "commands"},
}
PARTS = [name for name in MAY_IMPORT if (ROOT / name).is_dir() or (ROOT / f"{name}.py").is_file()]


def files(part: str) -> list[Path]:
    return sorted((ROOT / part).rglob("*.py")) or [ROOT / f"{part}.py"]


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("part", PARTS)
def test_a_part_imports_only_what_stands_to_its_right(part: str) -> None:
    ours = {name for path in files(part) for name in imported(path)} & set(MAY_IMPORT)
    assert ours - {part} <= MAY_IMPORT[part]


def test_every_python_file_belongs_to_a_part() -> None:
    top = {p.name.removesuffix(".py") for p in ROOT.iterdir() if p.suffix == ".py"}
    folders = {p.parent.name for p in ROOT.glob("*/__init__.py")}
    assert (top | folders) - {"tests"} == set(PARTS)


@pytest.mark.parametrize("name", ["_probe", "_gil_state", "_gil_word", "_memory"])
def test_the_probe_needs_only_the_standard_library(name: str) -> None:
    assert imported(ROOT / "servers" / f"{name}.py") - {"servers"} <= sys.stdlib_module_names


def test_the_process_pool_needs_only_the_standard_library() -> None:
    for path in (ROOT / "pipepool" / "src").rglob("*.py"):
        assert imported(path) - {"pipepool"} <= sys.stdlib_module_names, path


@pytest.mark.parametrize("part", sorted({*PARTS} - {"servers", "bench"}))
def test_only_servers_and_the_bench_use_the_process_pool(part: str) -> None:
    assert not any("pipepool" in imported(path) for path in files(part))


def test_third_party_servers_are_imported_inside_serve_only() -> None:
    core = {"servers", "pipepool", "tasks", "catalog", "errors", "tornado"}
    for path in (p for p in files("servers") if p.stem in catalog.servers()):
        at_import = {
            name
            for node in ast.parse(path.read_bytes()).body
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in imported_by(node)
        }
        assert at_import <= core | sys.stdlib_module_names, path


def imported_by(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").partition(".")[0]}
    return {alias.name.partition(".")[0] for alias in node.names}
