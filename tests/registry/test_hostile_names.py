"""None of 200 hostile names is executed, as code, as a command, or as a path."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from offload import tasks
from offload.engine import journal
from offload.errors import UsageError
from offload.registry import catalog
from tests import ROOT
from tests.commands import fab_here

CANARY = "canary"
COMMANDS = (
    f"touch {CANARY}",
    f"python3 -c open('{CANARY}','w')",
    f">{CANARY}",
)
PYTHON = (
    f"open('{CANARY}','w')",
    f"__import__('pathlib').Path('{CANARY}').touch()",
    f"__import__('os').system('touch {CANARY}')",
    f"exec(\"open('{CANARY}','w')\")",
)
SHELL_FORMS = (
    "{}",
    "$({})",
    "`{}`",
    ";{}",
    "|{}",
    "||{}",
    "&{}",
    "&&{}",
    "\n{}",
    "noop_sync;{}",
    "noop_sync\n{}",
    "noop_sync|{}",
    "noop_sync$({})",
    "'{}'",
    '"{}"',
    "\r\n{}\r\n",
    "-c {}",
    "--{}",
    "x\x00{}",
    "\x1b]0;{}\x07",
    "noop_sync && {} #",
    "${{IFS}}{}",
    "%0a{}",
    "\u2028{}",
)
PYTHON_FORMS = (
    "{}",
    "({})",
    "[{}]",
    "{{{}}}",
    "noop_sync({})",
    "noop_sync or {}",
    "f'{{{}}}'",
    "{{{{{}}}}}",
    "lambda_{}",
    "(lambda_={})",
    "noop_sync\n{}",
    "noop_sync;{}",
    "__import__.{}",
    "{}.real",
    "@{}",
    "!{}",
    "!!python/object/apply {}",
    "cos\nsystem\n(S'{}'\ntR.",
    "%({})s",
    "#{}",
    "{}\x00",
    "\ufeff{}",
)
PATHS = (
    "..",
    "../..",
    "../servers/threads",
    "../../etc/passwd",
    "/etc/passwd",
    "./noop",
    "noop_sync/..",
    "\\\\host\\share",
    "file",
    ".hidden",
    "_etree",
    "__init__",
    "__main__",
    "__builtins__",
    "__class__",
    "noop_sync.__globals__",
    "noop_sync.__class__.__base__",
    "os.system",
    "subprocess.run",
    "builtins.exec",
    "~/.bashrc",
    "~root",
    "*",
    "noop_*",
    "[a-z]*",
    "(?:a+)+$",
    "con",
    "\u202enys_poon",
    "noop_sync\u0000",
    "noop\u200b_sync",
    "\u0274oop_sync",
    "NOOP_SYNC",
    " noop_sync",
    "noop_sync ",
    "noop_sync\n",
    "\ud800",
    "a" * 100_000,
    "%s%s%s%n",
    "{0.__class__}",
    "",
)
NAMES = sorted(
    {form.format(command) for form in SHELL_FORMS for command in COMMANDS}
    | {form.format(code) for form in PYTHON_FORMS for code in PYTHON}
    | set(PATHS)
)
FINDERS = (
    pytest.param(catalog.find_server, marks=pytest.mark.slow, id="find_server"),  # 20 ms per name
    catalog.find_task,
    catalog.find_driver,
    catalog.find_suite,
    tasks.resolve,
)


# Commands into which a name is put. `run_server` is not here: a name that is found would be served.
COMMANDS_WITH_NAME = (
    "measure:3/{}",
    "measure:{}/noop_sync",
    "compare:3/noop_sync,3/{}",
    "run_suite:{}",
    "run_load_test:driver={}",
    "gil:{}",
    "scale:3/{},workers=1+2",
    "report:{}",
    "resume:{}",
    "capacity:3/{},p99=50ms",
    "{}",
)
EVERY = [(name, number) for name in range(len(NAMES)) for number in range(len(COMMANDS_WITH_NAME))]
ONCE = [(name, name % len(COMMANDS_WITH_NAME)) for name in range(len(NAMES))]


def test_there_are_200_names() -> None:
    assert len(NAMES) >= 200


@pytest.mark.parametrize("find", FINDERS, ids=lambda find: find.__name__)
def test_no_hostile_name_is_executed(
    find: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError):  # the first search may import modules of the toolkit
        find("nosuch")  # type: ignore[operator]
    modules = set(sys.modules)
    for name in NAMES:
        with pytest.raises(UsageError) as caught:
            find(name)  # type: ignore[operator]
        assert "\n" not in str(caught.value), name
        assert len(str(caught.value)) < 2000
    assert not list(tmp_path.iterdir())
    assert not {name for name in set(sys.modules) - modules if not name.startswith("encodings")}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "pairs", [ONCE, pytest.param(EVERY, marks=pytest.mark.slow)], ids=["once", "every"]
)
def test_a_hostile_name_on_the_command_line_is_one_line(
    pairs: list[tuple[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each name is parsed by the real program, and looked up by the real command."""
    monkeypatch.setattr("tests.commands.ROOT", tmp_path)
    (tmp_path / "fabfile.py").symlink_to(ROOT / "fabfile.py")
    runs = len(list(journal.RESULTS.iterdir()))
    for number, command in pairs:
        name = NAMES[number]
        if name.startswith("-") and COMMANDS_WITH_NAME[command] == "{}":
            continue  # an option of Fabric, by which its user names code to import
        said = fab_here(COMMANDS_WITH_NAME[command].replace("{}", name))
        shown = (COMMANDS_WITH_NAME[command], name[:80], said.stderr[:200])
        assert said.returncode in (2, 3, 6), shown
        assert said.stdout == "", shown
        assert said.stderr.count("\n") == 1, shown
        assert said.stderr.removesuffix("\n").isprintable(), shown
        assert len(said.stderr) < 2000, shown
    assert {path.name for path in tmp_path.iterdir()} <= {"fabfile.py", "__pycache__"}
    assert len(list(journal.RESULTS.iterdir())) == runs
    assert not (ROOT / CANARY).exists()
