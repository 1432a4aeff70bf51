"""Every spelling of a command line means the same: that of offload, and the older one of fab."""

from __future__ import annotations

import re
import subprocess

import pytest

from offload.cli import commands, program
from offload.cli.fab import commands_of
from offload.cli.program import OFFLOAD
from offload.errors import UsageError
from offload.studies import measure
from offload.suites._case import parse_case
from tests import ROOT
from tests.commands import FAB, fab_here, offload_here

assert commands  # they have registered themselves
SERVE = {"server": "3", "task": "network_sync"}


def called(words: list[str], of_fab: bool = False) -> list[tuple[str, dict[str, object]]]:
    """Return each command of a line with the values that are given."""
    lines = commands_of(words) if of_fab else [words]
    parsed = [(OFFLOAD.find(name), rest) for name, *rest in lines]
    return [(name, {**OFFLOAD.parse(name, rest)[1].arguments}) for name, rest in parsed]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run_server:3,network_sync"], SERVE),
        (["run-server:3,network_sync"], SERVE),
        (["run_server:server=3,task=network_sync"], SERVE),
        (["run_server:3,task=network_sync"], SERVE),
        (["run_server", "--server", "3"], {"server": "3"}),
        (["run_server:3,shop.pricing:quote"], {"server": "3", "task": "shop.pricing:quote"}),
        (["run_server:3,/a/b=c.py:f"], {"server": "3", "task": "/a/b=c.py:f"}),
        (["run_server:3,,9000"], {"server": "3", "port": 9000}),
        (["run_server:3,network_sync,9000"], {**SERVE, "port": 9000}),
        (["run-server", "--server=3", "--task=network_sync"], SERVE),
        (["run_server", "3", "network_sync"], SERVE),
        (["run_server", "3", "task=network_sync"], SERVE),
        (["run_server:3", "network_sync"], SERVE),
        (["run_server", "3,network_sync"], SERVE),
        (["run_server", "--port=9000", "3"], {"server": "3", "port": 9000}),
        (["run_server", "--port", "9000", "3"], {"server": "3", "port": 9000}),
        (["run_server:"], {}),
    ],
)
def test_a_spelling_of_fab_becomes_values(words: list[str], expected: dict[str, object]) -> None:
    assert called(words, of_fab=True) == [("run_server", expected)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run_server", "3", "network_sync"], SERVE),
        (["run-server", "3", "task=network_sync"], SERVE),
        (["run_server", "--server", "3", "--task=network_sync"], SERVE),
        (["run_server", "3", "--task", "network_sync", "port=9000"], {**SERVE, "port": 9000}),
        (["run_server", "--port", "9000", "3"], {"server": "3", "port": 9000}),
        (["run_server", "3", "/a/b=c.py:f"], {"server": "3", "task": "/a/b=c.py:f"}),
        (["run_server", "3", "task="], {"server": "3"}),
    ],
)
def test_a_spelling_of_offload_becomes_values(
    words: list[str], expected: dict[str, object]
) -> None:
    assert called(words) == [("run_server", expected)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["measure", "3/x", "--keep-alive", "--users=5"], {"keep_alive": True, "users": 5}),
        (["measure", "3/x", "--keep_alive", "users=5"], {"keep_alive": True, "users": 5}),
        (["measure", "3/x", "keep_alive=yes", "--users", "5"], {"keep_alive": True, "users": 5}),
        (["measure", "3/x", "keep_alive=no"], {}),
        (["measure", "3/x", "--keep-alive=off"], {}),
        (["measure", "3/x", "--keep-alive=ON"], {"keep_alive": True}),
    ],
)
def test_options_may_have_dashes_or_not(words: list[str], expected: dict[str, object]) -> None:
    [(name, found)] = called(words)
    assert (name, found["given"]) == ("measure", measure.Options("3/x", **expected))  # type: ignore[arg-type]


def test_groups_of_options_are_built_from_their_words() -> None:
    [(_, found)] = called(["measure", "uvicorn", "app=shop:app", "--request=/q", "from=a+b"])
    served, placed = found["given"].served, found["given"].placed
    assert (served.app, served.request, placed.from_) == ("shop:app", "/q", "a+b")


def test_a_line_of_fab_may_have_several_commands() -> None:
    names = [name for name, _ in called(["doctor", "run_server:3", "list"], of_fab=True)]
    assert names == ["doctor", "run_server", "list"]
    found = called(["run_server", "3", "shop.pricing:quote", "run_suite"], of_fab=True)
    assert found == [
        ("run_server", {"server": "3", "task": "shop.pricing:quote"}),
        ("run_suite", {}),
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run_sever:3"], "did you mean run_server"),
        (["run_server:3,a,1" + ",2" * 30], "no parameter for '2'"),
        (["run_server:3,prt=1"], "did you mean port"),
        (["run_server:3,server=4"], "server twice"),
        (["run_server:server=3,4"], r"'4' after server= has no name: join .* server=3\+4, or"),
        (["run_server", "--prt", "1"], "did you mean port"),
        (["run_all_load_tests:quick=maybe"], "must be yes or no"),
        (["x\ny"], r"no 'x\\ny' in the commands"),
        (["xyz", "run_server"], "no 'xyz' in the commands: offload --list"),
        (["run_server", "run_sever"], "did you mean run_server"),
        (["run_server", "server=3", "4"], "'4' after server= has no name"),
        (["compare_runs:ensure=1"], "compare_runs has no ensure= any more: use min_rate=100"),
        (["run_load_test:processes=2"], "run_load_test has no processes= any more: use load_proc"),
        (["run_server:granian_asgi,threads=2"], "no threads= any more: use runtime_threads= for"),
        (["run_server:dask,isolate=yes"], "run_server has no isolate= any more: use dask_isolate="),
        (["measure:colour=red"], "'colour' in the parameters of measure: offload measure --help"),
    ],
)
def test_a_wrong_word_of_fab_is_named_with_what_to_do(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        called(words, of_fab=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run_sever 3", "no 'run_sever' in the commands: did you mean run_server?"),
        ("run_server 3 a 1 2", "run_server has no parameter for '2': it accepts server, task"),
        ("run_server 3 prt=1", "no 'prt' in the parameters of run_server: did you mean port?"),
        ("run_server 3 --prt 1", "no 'prt' in the parameters of run_server: did you mean port?"),
        ("measure 3 workers=16", "measure has no workers=: write it in the case: SERVERx16 has 16"),
        ("compare 3 4 --processes 2", "compare has no processes=: write it in the case: SERVERx16"),
        ("run_server 3 server=4", "run_server has '3', a value without a name after one that"),
        ("run_server --port 1 --port 2", "run_server has port twice"),
        ("run_server --server", "requires an argument: offload run_server --help"),
        ("run_suite tornado --quick=maybe", "quick='maybe' must be yes or no"),
        ("run_suite -q", "no '-q' in the parameters of run_suite"),
        ("--nosuch", "no '--nosuch' in the options"),
    ],
)
def test_a_wrong_word_is_one_line_and_exit_code_2(words: str, message: str) -> None:
    done = offload_here(*words.split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("error: ")
    assert message in done.stderr


@pytest.mark.parametrize("name", OFFLOAD.commands)
def test_the_help_of_a_command_has_each_option_once(name: str) -> None:
    done = offload_here(name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 100
    text = done.stdout.partition("\n\n")[2]
    for option in OFFLOAD.parameters(name):
        heads = (f"\n  --{option.replace('_', '-')} ", f"\n  {option.replace('_', '-')} ")
        assert sum(map(text.count, heads)) == 1, option


def run_command(*words: str) -> tuple[int, str, str]:
    done = fab_here(*words)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--help", "run-server"],
        ["--help=run-server"],
        ["-h", "run_server:3"],
        ["run-server", "--help"],
        ["run-server:3", "--help"],
        ["help", "run-server"],
        ["help:run-server"],
    ],
)
def test_help_takes_every_spelling_of_a_command(words: list[str]) -> None:
    code, help_, errors = run_command("--help", "run_server")
    assert (code, "Serve a task with a server until Ctrl-C" in help_, errors) == (0, True, "")
    assert run_command(*words) == (code, help_, errors)
    assert offload_here("run_server", "--help").stdout == help_
    assert offload_here("help", "run_server").stdout == help_


def test_the_help_of_a_case_has_only_cases() -> None:
    text = offload_here("help", "case").stdout
    assert run_command("help:case") == run_command("--help", "case") == (0, text, "")
    cases = [line.split()[0] for line in text.splitlines() if line.startswith("  ")]
    assert len(cases) == 6
    for each in cases:
        assert parse_case(each.replace("shop.py:quote", "sleep_sync")).task == "sleep_sync"


def test_help_of_an_unknown_command_is_one_line_with_a_suggestion() -> None:
    line = "error: no 'run-sever' in the commands: did you mean run_server?\n"
    assert run_command("--help", "run-sever") == (2, "", line)
    line = "error: no 'xyz' in the commands: offload --list lists them all\n"
    assert run_command("--help", "xyz") == run_command("xyz") == (2, "", line)


def test_the_program_lists_its_commands_and_its_version() -> None:
    listed = offload_here("--help").stdout
    for words in ([], ["--list"], ["help"]):
        assert offload_here(*words).stdout == listed
    assert [name for name in OFFLOAD.commands if f"  {name} " not in listed] == []
    assert [*re.findall(r"^  (\w+) ", listed.partition("\n\n")[2], re.M)] == OFFLOAD.commands
    assert offload_here("--version").stdout == f"offload {program.__version__}\n"


def test_a_newcomer_finds_the_main_command_of_each_group_first() -> None:
    assert {group: names[0] for group, names in OFFLOAD.groups.items()} == {
        "Start here": "doctor",
        "Measure": "measure",
        "Understand": "advise",
        "Serve": "run_server",
        "Maintain": "baseline",
    }
    understand = OFFLOAD.groups["Understand"]
    assert understand.index("report") < min(map(understand.index, ("claims", "watch")))


@pytest.mark.server
@pytest.mark.parametrize("words", [["--list"], ["--help", "run_server"], []])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_is_no_traceback(
    words: list[str], unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    pipe = subprocess.PIPE
    with subprocess.Popen([FAB, *words], cwd=ROOT, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, errors = process.communicate(timeout=30)
        assert (errors, process.returncode) == (b"", 0)
