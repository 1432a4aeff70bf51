"""`python -m lab` lists all entries and runs one; what is wrong is one line with exit code 2."""

from __future__ import annotations

import pytest

from lab.__main__ import experiments
from lab.commands import PROGRAM
from lab.faults import lab as fault_lab
from offload.cli.program import OFFLOAD
from offload.errors import UsageError
from tests.lab.running import lab, lab_here
from tests.registry.test_hostile_names import NAMES


@pytest.mark.server
@pytest.mark.parametrize("words", [(), ("--help",)])
def test_every_entry_is_listed_with_what_it_does(words: tuple[str, ...]) -> None:
    said = lab(*words)
    assert (said.returncode, said.stderr) == (0, "")
    listed = dict(line.split(maxsplit=1) for line in said.stdout.partition("\n\n")[0].splitlines())
    assert listed.keys() == {*PROGRAM.commands, *experiments()}
    assert {"faults", "soak", "gate_check", "dask_kill", "mutants"} <= set(listed)
    assert all(text.endswith(".") for text in listed.values())


@pytest.mark.server
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nosuch",), "no 'nosuch' in lab/: python -m lab lists them all"),
        (("faultz",), "no 'faultz' in lab/: did you mean faults?"),
        (("x\x1b[2J\ny",), r"no 'x\x1b[2J\ny' in lab/: python -m lab lists them all"),
        (("faults", "R99"), "there is no row 'R99': choose from R1, "),
        (("faults", "quick=yes"), "no 'quick' in the parameters of faults: choose from row, "),
        (("soak", "minutes=0"), "minutes='0' is not a number from "),
    ],
)
def test_what_is_wrong_is_one_line_with_exit_code_2(words: tuple[str, ...], message: str) -> None:
    said = lab(*words)
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1)
    assert said.stderr.startswith(f"error: {message}")


@pytest.mark.parametrize("name", PROGRAM.commands)
def test_the_help_of_a_command_names_this_program(name: str) -> None:
    said = lab_here(name, "--help")
    assert said.returncode == 0
    assert PROGRAM.docstring(name).partition("\n")[0] in said.stdout
    assert f"fab {name}" not in said.stdout


def test_both_spellings_of_options_are_accepted() -> None:
    for words in (("R99", "size=small"), ("--row=R99",), ("row=R99",)):
        assert lab_here("faults", *words).stderr.startswith("error: there is no row 'R99'")


def test_a_hostile_name_of_a_row_or_server_is_one_line() -> None:
    for name in filter(None, NAMES):
        for row, servers in ((name, []), ("R1", [name])):
            with pytest.raises(UsageError) as refused:
                fault_lab.select(row, servers)
            assert "\n" not in str(refused.value)


def test_the_product_has_none_of_these_commands() -> None:
    assert not {*PROGRAM.commands, *experiments()} & {*OFFLOAD.commands}
