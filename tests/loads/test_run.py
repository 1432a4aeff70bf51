"""A load tool is always ended, and an impossible load is rejected in one line."""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from offload import loads
from offload.errors import MachineError, UsageError
from offload.loads import Arrivals, Command, Figures, Load, LoadResult, Message, Window, _run, siege
from tests import ROOT
from tests.loads.conftest import Server

HERE = "http://127.0.0.1/"
LOAD = Load("http://127.0.0.1:1/", users=1, seconds=0.1, timeout=0.1)


@pytest.mark.parametrize(
    ("load", "driver", "message"),
    [
        (Load("http://127.0.0.1/", users=0), "builtin", "at least 1"),
        (Load("http://127.0.0.1/", users=5000), "siege", "at most 1000 users.*driver=builtin"),
        (Load("http://127.0.0.1/"), "seige", "did you mean siege"),
        (Load("http://192.0.2.1/"), "builtin", "not on this machine"),
        (Load("ftp://127.0.0.1/"), "builtin", "not an http URL"),
        (Load("http://127.0.0.1/\n-x"), "builtin", "not an http URL"),
        (Load("nonsense"), "builtin", "not an http URL"),
        (Load("http://127.0.0.1:x/"), "builtin", "is invalid"),
        (Load("http://no.such.invalid/"), "builtin", "unknown host 'no.such.invalid'"),
        (Load("http://a..b/"), "builtin", r"unknown host 'a\.\.b': check its name"),
        (Load(f"http://{'a' * 64}.test/"), "builtin", "unknown host 'aaa"),
        (Load("http://127.0.0.1/", users=10**6), "builtin", "users: use fewer$"),
        (Load(HERE, seconds=None), "builtin", "no end"),
        (Load(HERE, seconds=float("nan")), "builtin", "seconds=nan"),
        (Load(HERE, seconds=None, requests=5, window=Window(1.0)), "builtin", "not requests="),
        (Load(HERE, users=2, processes=3), "builtin", "more than 2 users"),
        (Load(HERE, message=Message("HEAD")), "builtin", "choose from GET, POST"),
        (
            Load(HERE, window=Window(1.0)),
            "siege",
            "siege has no warm-up of its own: use driver=builtin",
        ),
        (Load(HERE, arrivals=Arrivals(5.0)), "siege", "siege has no open loop: use driver=builtin"),
        (Load(HERE, arrivals=Arrivals(0.0)), "builtin", "rate=0.0: must be more than 0"),
        (Load(HERE, arrivals=Arrivals(5.0), think=1.0), "builtin", "rate= is an open loop"),
        (Load(HERE, arrivals=Arrivals(5.0, "even")), "builtin", "choose from uniform, poisson"),
        (Load(HERE, think=1.0), "siege", "siege has no even think time"),
        (Load(HERE, message=Message("PUT")), "siege", "siege cannot send PUT"),
    ],
)
def test_what_cannot_be_run_is_refused(load: Load, driver: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        loads.check(load, driver)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.9.9.9"])
def test_this_machine_is_accepted(host: str) -> None:
    loads.check(Load(f"http://{host}:8000/x?y=z"), "builtin")


def test_a_tool_that_is_missing_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MachineError, match="apt install siege, or use driver=builtin"):
        loads.check(LOAD, "siege")
    assert loads.default_driver() == "builtin"


@pytest.mark.server
def test_a_tool_that_hangs_is_killed_and_its_words_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN)"
    hang = (
        f"{deaf}; print('deaf', flush=True); open({str(begun)!r}, 'a').write('x'); time.sleep(60)"
    )
    monkeypatch.setattr(siege, "command", lambda load: Command((sys.executable, "-c", hang)))
    monkeypatch.setattr(siege, "TOOL", sys.executable)
    monkeypatch.setattr(_run, "GRACE", 1.0)
    ran = loads.run(LOAD, "siege")
    assert (ran.hung, ran.driver_cpu_s, ran.output) == (True, None, "deaf")
    assert "hung" in (ran.result.problem or "")
    assert (ran.result.figures.rate, begun.read_text()) == (None, "x")


@pytest.mark.server
def test_a_tool_that_fails_leaves_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "import sys; sys.exit('no \\x1b[31mlicence')"
    monkeypatch.setattr(siege, "command", lambda load: Command((sys.executable, "-c", said)))
    monkeypatch.setattr(siege, "TOOL", sys.executable)
    ran = loads.run(LOAD, "siege")
    assert "no licence" in ran.output
    assert ran.result.problem


@pytest.mark.server
def test_a_tool_that_is_killed_is_reported_with_its_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, the message would be about the missing output, and not about its cause."""
    killed = "import os; os.kill(os.getpid(), 9)"
    monkeypatch.setattr(siege, "command", lambda load: Command((sys.executable, "-c", killed)))
    monkeypatch.setattr(siege, "TOOL", sys.executable)
    ran = loads.run(LOAD, "siege")
    assert ran.result.problem == "siege was ended by signal 9 (Killed)"
    assert (ran.hung, ran.result.figures.rate) == (False, None)


def siege_that(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Replace siege by a program that prints a good result of siege, and then runs `code`."""
    good = (ROOT / "tests" / "data" / "siege" / "good.out").read_text()
    program = f"import os, time; print({good!r}, flush=True); {code}"
    monkeypatch.setattr(siege, "command", lambda load: Command((sys.executable, "-c", program)))
    monkeypatch.setattr(siege, "TOOL", sys.executable)


@pytest.mark.server
def test_a_time_that_is_longer_than_the_tool_ran_is_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The result is of 1.66 s; a tool that reads the time of day reports more if it is set."""
    siege_that(monkeypatch, "time.sleep(0.7)")
    assert loads.run(LOAD, "siege").result.problem is None
    siege_that(monkeypatch, "")
    monkeypatch.setattr(_run, "CLOCK", 0.0)
    result = loads.run(LOAD, "siege").result
    assert re.fullmatch(
        r"siege reports 2 s, but ran for [01] s: the machine's clock was set: measure again",
        result.problem or "",
    )
    assert result.figures == Figures()


@pytest.mark.server
def test_a_tool_that_ends_early_or_by_a_signal_after_its_result_has_a_flag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    siege_that(monkeypatch, "time.sleep(0.7); os.kill(os.getpid(), 11)")
    result = loads.run(replace(LOAD, seconds=20.0), "siege").result
    assert result.problem is None
    assert [flag.kind for flag in result.notes] == ["died", "early"]
    died, early = map(str, result.notes)
    assert died == "died: siege was ended by signal 11 (Segmentation fault) after its result"
    assert re.match(r"early: siege ended after [\d.]+ of 20 s: if the machine's clock was", early)


@pytest.mark.server
def test_the_tools_own_cpu_time_is_known(server: Server) -> None:
    ran = loads.run(Load(server.url("/"), users=2, seconds=0.3), "builtin")
    assert ran.driver_cpu_s is not None and 0 < ran.driver_cpu_s < 10


@pytest.mark.parametrize(("threads", "share"), [(1, 1.0), (2, 0.5), (None, 0.25)])
def test_how_busy_a_tool_was_is_of_the_cores_that_its_threads_can_use(
    monkeypatch: pytest.MonkeyPatch, threads: int | None, share: float
) -> None:
    """A tool that used one core is saturated if it has one thread, however many cores there are."""
    command = Command((sys.executable,), threads=threads)
    figures = Figures(elapsed_s=0.6, completed=1)
    monkeypatch.setattr(siege, "command", lambda load: command)
    monkeypatch.setattr(siege, "parse", lambda *_: LoadResult(figures))
    monkeypatch.setattr(siege, "TOOL", sys.executable)
    monkeypatch.setattr(_run.resource_limits, "cpu_count", lambda: 4)
    monkeypatch.setattr(_run, "_wait_for_exit", lambda *_: _run._Exit(0.6))
    assert loads.run(replace(LOAD, users=25), "siege").driver_busy == pytest.approx(share)


@pytest.mark.parametrize(
    ("driver", "processes", "threads"),
    [("siege", 1, None), ("ab", 1, 1), ("wrk", 2, 2), ("h2load", 2, 2), ("locust", 2, 2)],
)
def test_each_tool_names_its_threads(driver: str, processes: int, threads: int | None) -> None:
    module = importlib.import_module(f"offload.loads.{driver}")
    assert module.command(Load(HERE, users=3, processes=processes)).threads == threads


def test_processes_that_share_a_core_are_busy_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_run.resource_limits, "cpu_count", lambda: 2)
    shares = LoadResult(Figures(elapsed_s=1.0), driver_busy=0.5, driver_cpu_s=1.9)
    command = Command((), threads=4)
    assert _run.busy_share(command, Load(HERE), shares, 1.9) == 0.95
    uneven = replace(shares, driver_busy=0.9, driver_cpu_s=1.0)
    assert _run.busy_share(command, Load(HERE), uneven, 1.0) == 0.9


def test_a_warm_up_is_part_of_the_time_in_which_a_tool_used_cpu() -> None:
    load = Load(HERE, window=Window(warm=1.0))
    result = LoadResult(Figures(elapsed_s=1.0))
    assert _run.busy_share(Command((), threads=1), load, result, 1.0) == 0.5
    short = LoadResult(Figures(elapsed_s=0.3))
    assert _run.busy_share(Command((), threads=1), Load(HERE), short, 0.3) is None
