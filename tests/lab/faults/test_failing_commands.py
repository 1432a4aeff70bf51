"""A command that must fail is run as it is, and each way in which it ends wrongly is reported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lab.faults.commands import failing_commands
from lab.faults.commands.failing_commands import Case, offload
from lab.faults.rows import missing_resources

FAILS = "import sys; print('x is missing: apt install x', file=sys.stderr); sys.exit(3)"
WRONG = {
    "": "exit 0 instead of 3 ()",
    f"print('Traceback'); {FAILS}": "2 lines instead of one",
    FAILS.replace("apt", "get"): "no 'apt install' in its line (x is missing: get install x)",
    f"open('left', 'w').close(); {FAILS}": "it wrote left",
    f"import os; os.mkdir('empty'); {FAILS}": None,
    FAILS: None,
}

pytestmark = pytest.mark.server


@pytest.mark.parametrize("program", WRONG)
def test_each_wrong_end_is_named(program: str) -> None:
    case = Case("x", [sys.executable, "-c", program], 3, "apt install")
    assert failing_commands.problem(case, failing_commands.run(case), 20.0) == WRONG[program]


def test_a_command_that_is_too_slow_or_hangs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Case("x", [sys.executable, "-c", f"import time; time.sleep(0.3); {FAILS}"], 3, "apt")
    wrong, slowest_s = failing_commands.check([late], 0.2)
    assert len(wrong) == 1
    assert wrong[0].startswith("x: it took ")
    assert slowest_s > 0.3
    monkeypatch.setattr(failing_commands, "LONGEST_S", 1.0)
    hangs = Case("x", [sys.executable, "-c", "import time; time.sleep(60)"], 3, "apt")
    assert failing_commands.check([hangs])[0] == ["x: it did not end within 1 s"]


def test_a_limit_of_files_and_an_own_folder_hold_for_the_command() -> None:
    program = (
        "import os, resource, sys\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE), os.environ['RESULTS'], os.getcwd())"
    )
    ending = failing_commands.run(Case("x", [sys.executable, "-c", program], 0, "", files=40))
    limits, _, places = ending.lines[0].partition(") ")
    results, folder = places.split()
    assert limits == "(40, 40"
    assert results == f"{folder}/results"
    assert not Path(folder).exists()


def test_a_library_that_is_not_linked_cannot_be_imported(tmp_path: Path) -> None:
    case = missing_resources._without_library("threads", tmp_path)
    variables = case.variables
    for name, code in (("tornado", 1), ("psutil", 0), ("offload", 0)):
        probe = Case("x", [sys.executable, "-S", "-P", "-c", f"import {name}"], 0, "", variables)
        assert failing_commands.run(probe).code == code, name
    assert failing_commands.run(Case("x", offload("list"), 0, "")).code == 0
