"""Commands print at most 100 columns, as do the project's texts; exceptions are listed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from offload.engine import host, journal
from offload.engine.host import Noise
from offload.registry import catalog
from offload.studies import commands as study_commands
from tests import ROOT
from tests.commands import fab_here

WIDE = 100
WIDER = {
    "list": 133,
    "": 113,
    "doctor": 107,
}  # columns they have today: they may only become narrower


def commands() -> list[str]:
    """Name the commands, as their files decorate them, and those of studies."""
    found = [*study_commands()]
    for path in sorted((ROOT / "src" / "offload" / "cli").glob("**/*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                call = node.decorator_list[0]
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "command":
                    found.append(node.name)
    return found


def widest(printed: str) -> str:
    return max(printed.splitlines(), key=len)


def test_the_commands_are_found() -> None:
    assert {"quick", "run_server", "report", "gil", "capacity"} <= set(commands())
    assert len(commands()) >= 18


@pytest.mark.parametrize("command", commands())
def test_help_fits(command: str) -> None:
    said = fab_here("--help", command)
    assert said.returncode == 0
    assert len(said.stdout.splitlines()) >= 3
    assert len(widest(said.stdout)) <= WIDE, widest(said.stdout)


@pytest.mark.parametrize("words", ["--list", "list", ""])
def test_what_there_is_fits(words: str) -> None:
    said = fab_here(*words.split())
    assert said.returncode == 0
    assert len(widest(said.stdout)) <= WIDER.get(words, WIDE), widest(said.stdout)


def test_the_doctor_fits_but_for_paths_and_how_tools_are_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host, "measure_noise", lambda: Noise(0.99, 0.99, 0.99, 99.0))
    lines = [line for line in fab_here("doctor").stdout.splitlines() if "/" not in line]
    tools = [line for line in lines if line[9:].split()[0] in catalog.drivers()]
    assert len(lines) - len(tools) >= 8
    assert all(len(line) <= WIDE for line in lines if line not in tools), lines
    assert all(len(line) <= WIDER["doctor"] for line in tools), tools


def test_how_to_get_a_python_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # each Python there would be asked for its version
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    lines = fab_here("pythons").stdout.partition("\n\n")[2].splitlines()
    assert len(lines) >= 6
    assert len(max(lines, key=len)) <= WIDE


def test_what_a_report_explains_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "RESULTS", ROOT / "results")
    printed = fab_here("report:example").stdout
    conditions = [line for line in printed.splitlines() if line.startswith(("Load: ", "Pools "))]
    assert len(conditions) == 2
    assert len(widest(printed)) <= WIDE
