"""Allowed imports between packages, checked against the imports of every file."""

from __future__ import annotations

import ast
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from offload.registry import catalog, places
from tests import ROOT

PACKAGE = places.PACKAGE
BASE = {
    *(
        "command_line",
        "errors",
        "files",
        "prctl",
        "registry",
        "resource_limits",
        "ssh",
        "units",
    ),
}
MAY_IMPORT = {
    "command_line": set(),
    "errors": set(),
    "files": set(),
    "interrupts": set(),
    "units": set(),
    "prctl": set(),
    "resource_limits": {"errors"},
    "ssh": {"errors"},
    "registry": {"errors"},
    "upstream": BASE,
    "tasks": BASE,
    "serving": BASE | {"tasks"},
    "servers": BASE | {"tasks", "serving"},
    "loads": BASE,
    "suites": BASE | {"loads"},
    "engine": BASE | {"suites", "loads", "upstream"},
    "causes": BASE | {"engine"},
    "documents": BASE | {"suites", "loads", "engine", "causes"},
    "options": BASE | {"suites", "loads"},
    "studies": BASE | {"options", "suites", "loads", "upstream", "engine", "causes", "documents"},
    "cli": BASE | {"options", "suites", "loads", "engine", "studies", "documents"},
    "__main__": {"interrupts", "cli"},
}

SERVED = ROOT / "lab" / "faults" / "served"  # the tasks of the lab: servers import them
PRODUCT = (ROOT / "src" / "offload", ROOT / "servers", ROOT / "tasks", ROOT / "pipepool" / "src")


def files(part: str) -> list[Path]:
    return sorted((PACKAGE / part).rglob("*.py")) or [PACKAGE / f"{part}.py"]


def modules(path: Path) -> set[str]:
    """Every dotted name that a file imports: `from a import b` is a.b."""
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def dotted_name(path: Path) -> str:
    """The name by which a file is imported: a package has that of its folder."""
    words = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(words[:-1] if words[-1] == "__init__" else words)


def imported(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in modules(path)}


def parts_of(path: Path) -> set[str]:
    """The parts of the toolkit that a file imports from."""
    ours = [name.split(".") for name in modules(path)]
    return {words[1] for words in ours if words[0] == "offload"} - {"__version__"}


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_a_part_imports_only_what_stands_to_its_right(part: str) -> None:
    ours = {name for path in files(part) for name in parts_of(path)}
    assert ours - {part} <= MAY_IMPORT[part]


def test_the_product_imports_neither_the_lab_nor_scripts() -> None:
    paths = [path for folder in PRODUCT for path in folder.rglob("*.py")]
    assert len(paths) > 100
    found = {path: imported(path) & {"lab", "scripts"} for path in (*paths, ROOT / "fabfile.py")}
    assert {path: names for path, names in found.items() if names} == {}


def test_the_tasks_of_the_lab_import_only_tasks() -> None:
    paths = [*SERVED.glob("*.py")]
    assert len(paths) > 1
    assert {name for path in paths for name in parts_of(path)} <= {"tasks"}


def test_the_files_import_each_other_in_no_cycle() -> None:
    paths = {dotted_name(path): path for part in MAY_IMPORT for path in files(part)}
    graph = {}
    for name, path in paths.items():
        found = {each if each in paths else each.rpartition(".")[0] for each in modules(path)}
        graph[name] = found & paths.keys() - {name}
    assert len(graph) > 10
    assert [*TopologicalSorter(graph).static_order()]  # raises CycleError


def test_every_python_file_belongs_to_a_part() -> None:
    modules = {p.name.removesuffix(".py") for p in PACKAGE.glob("*.py")} - {"__init__"}
    folders = {p.parent.name for p in PACKAGE.glob("*/__init__.py")}
    assert modules | folders == set(MAY_IMPORT)
    assert [p.name for p in ROOT.glob("*.py")] == ["fabfile.py"]


@pytest.mark.parametrize(
    "name", sorted(p.stem for p in (PACKAGE / "serving" / "metrics").glob("*.py"))
)
def test_metrics_need_only_the_standard_library(name: str) -> None:
    path = PACKAGE / "serving" / "metrics" / f"{name}.py"
    assert imported(path) - {"offload"} <= sys.stdlib_module_names
    assert parts_of(path) <= {"serving", "tasks"}


def test_the_registry_needs_only_the_standard_library() -> None:
    for path in files("registry"):
        assert imported(path) - {"offload", "pipepool"} <= sys.stdlib_module_names, path


def test_the_process_pool_needs_only_the_standard_library() -> None:
    for path in (ROOT / "pipepool" / "src").rglob("*.py"):
        assert imported(path) - {"pipepool"} <= sys.stdlib_module_names, path


@pytest.mark.parametrize("part", sorted({*MAY_IMPORT} - {"serving", "engine", "registry"}))
def test_only_serving_and_the_engine_use_the_process_pool(part: str) -> None:
    assert not any("pipepool" in imported(path) for path in files(part))


def test_third_party_servers_are_imported_inside_serve_only() -> None:
    core = {"offload", "pipepool", "tornado"}
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
