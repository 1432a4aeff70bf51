"""Functions that cannot be advised on end the command with one line and an exit code."""

from __future__ import annotations

import pickle
import re
import runpy
from pathlib import Path

import pytest

from offload.studies.advise import function
from offload.studies.advise.evidence import Question
from offload.studies.advise.prior import Prior
from offload.suites import Case
from tests.commands import fab

BAD = """
import asyncio, os, sys, time
def raises(): raise ValueError("no quote\\nfor 7")
def ends(): os._exit(3)
def exits(): sys.exit(3)
def a_set(): return {7}
def needs(symbol): return symbol
NAME = "quote"
price = lambda: time.sleep(0.01)
KEPT = []
def leaks():
    KEPT.append(b"x" * (1 << 20))
    time.sleep(0.001)
    return b"1"
def fails_often(calls=[]):
    calls.append(1)
    time.sleep(0.01)
    if len(calls) % 2: raise ValueError("odd")
def few(in_progress=set()):
    if in_progress: raise RuntimeError("too many connections")
    in_progress.add(1)
    time.sleep(0.02)
    in_progress.discard(1)
    return "42"
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
        ("bad:a_set", 5, "every call failed: bad:a_set returned set: a task returns bytes"),
        ("bad:needs", 2, "'bad:needs' needs symbol: give it arguments as 'bad:needs(@file.json)'"),
        ("bad:NAME", 2, "'NAME' in bad is not a function: name one"),
        ("bad:a_set()", 2, "'bad:a_set()' does not name a function: a task of your own is"),
        ("bad:leaks", 5, "bad:leaks leaks 1 MiB a call: it reaches "),
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
    remedy = "fix that first, or limit the calls in progress by connections="
    assert said.stderr.splitlines()[-1] == f"error: {problem}: {remedy}"
    assert said.returncode == 5


@pytest.mark.server
@pytest.mark.timeout(120)
def test_the_calls_until_a_leak_reaches_the_required_memory_are_told(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    said = fab(f"advise:bad:leaks,path={tmp_path},memory=400M", timeout=100)
    message = r"error: bad:leaks leaks 1 MiB a call: it reaches 400 MiB after (\d+) calls: fix"
    [calls] = re.findall(message, said.stderr)
    line = BAD.splitlines().index('    KEPT.append(b"x" * (1 << 20))') + 1
    keeps = rf"leaks \(bad\.py:{line}\) allocates (100|9\d) % of the memory that stays in use$"
    assert re.search(keeps, said.stderr.rstrip())
    assert said.returncode == 5
    assert 300 < int(calls) < 500


@pytest.mark.server
@pytest.mark.timeout(120)
def test_what_fails_only_beside_other_calls_is_told_with_its_error(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    case = Case("threads", f"{tmp_path}/bad.py:few")
    [_, told] = function.measure(case, Question()).why()
    assert re.fullmatch(
        r"Several threads are left out: of \d+ calls at once \d+ % fail \(\S+ raised RuntimeError: "
        r"too many connections \(line \d+\)\)\. Fix that, or limit them by connections=\.",
        told,
    )


@pytest.mark.server
@pytest.mark.timeout(120)
def test_a_function_that_cannot_be_pickled_is_isolated_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    case = Case("threads", f"{tmp_path}/bad.py:price")
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(runpy.run_path(str(tmp_path / "bad.py"))["price"])
    question = Question(isolate=True)
    prior = Prior(function.measure(case, question).costs, question)
    assert {each.server for each in prior.candidates(function.SERVERS)} == {"processes", "pipes"}


@pytest.mark.server
@pytest.mark.timeout(120)
def test_connections_limit_the_calls_at_once(tmp_path: Path) -> None:
    """A function that fails beside other calls is not called so."""
    (tmp_path / "bad.py").write_text(BAD)
    case = Case("threads", f"{tmp_path}/bad.py:few")
    found = function.measure(case, Question(connections=1))
    one = Prior(found.costs, Question(connections=1)).candidates(function.SERVERS)
    assert "threads 1x1" in [each.name for each in one]
    assert all(each.slots in (None, 1) for each in one)
