"""None of 200 hostile names is executed, as code, as a command, or as a path."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from offload import tasks
from offload.errors import UsageError
from offload.registry import catalog

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
