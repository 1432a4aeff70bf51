"""Functions that cannot be advised on end the command with one line and an exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import fab

BAD = """
import asyncio, os, sys, time
def raises(): raise ValueError("no quote\\nfor 7")
def ends(): os._exit(3)
def exits(): sys.exit(3)
def number(): return 7
def needs(symbol): return symbol
NAME = "quote"
def fails_often(calls=[]):
    calls.append(1)
    time.sleep(0.01)
    if len(calls) % 2: raise ValueError("odd")
async def alone():
    lock = os.open(__file__ + ".lock", os.O_CREAT | os.O_EXCL)
    await asyncio.sleep(0.01)
    os.close(lock)
    os.unlink(__file__ + ".lock")
    return "42"
"""


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("task", "code", "message"),
    [
        (
            "bad:raises",
            5,
            "every call failed: bad:raises raised ValueError: no quote\\nfor 7 (line 3): fix",
        ),
        ("bad:ends", 5, "calling bad:ends ended the process (exit code 3): fix the function"),
        ("bad:exits", 5, "every call failed: bad:exits raised SystemExit: 3 (line 5): fix"),
        ("bad:number", 5, "every call failed: bad:number returned int: a task returns bytes"),
        ("bad:needs", 2, "'bad:needs' needs symbol: give it arguments as 'bad:needs(@file.json)'"),
        ("bad:NAME", 2, "'NAME' in bad is not a function: name one"),
        ("bad:number()", 2, "'bad:number()' does not name a function: a task of your own is"),
        ("bad:fails_often", 5, "no set-up worked: answered 500: bad:fails_often raised"),
    ],
)
def test_a_function_that_cannot_be_advised_on_is_one_line(
    task: str, code: int, message: str, tmp_path: Path
) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    said = fab(f"advise:{task},path={tmp_path},users=2,budget=30", timeout=200)
    assert (said.returncode, "Traceback" in said.stderr) == (code, False), said
    errors = [line for line in said.stderr.splitlines() if line.startswith("error: ")]
    assert [line.startswith(f"error: {message}") for line in errors] == [True], errors


@pytest.mark.server
@pytest.mark.timeout(120)
def test_a_coroutine_that_works_in_no_set_up_is_one_line(tmp_path: Path) -> None:
    """One call at a time can have its file, on a loop, in threads and in processes."""
    (tmp_path / "bad.py").write_text(BAD)
    said = fab(f"advise:bad:alone,path={tmp_path},users=4", timeout=100)
    problem = "bad:alone fails in every set-up if several calls run at once"
    assert said.stderr.splitlines()[-1] == f"error: {problem}: fix the function first"
    assert said.returncode == 5
