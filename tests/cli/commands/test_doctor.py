"""`offload doctor` finds problems, prints a fix for each, and sets the exit code."""

from __future__ import annotations

import importlib.util
import os
import resource
import socket
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from offload import resource_limits
from offload.cli import doctor
from offload.cli.doctor import OK, WARNING, WRONG
from offload.engine import host
from offload.engine.host import Noise
from offload.registry import catalog
from tests import ROOT
from tests.commands import FAB, fab_here, free_port

QUIET = Noise(others_cpu=0.0, steal=0.0, pressure=0.0, timer_late_ms=0.1)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the machine quiet for the doctor of this process: nobody can order that it is."""
    monkeypatch.setattr(host, "measure_noise", lambda: QUIET)
    monkeypatch.setattr(doctor, "PORTS", {free_port(): "run_server"})


def found() -> dict[str, tuple[str, str]]:
    return {each.name: (each.level, each.message) for each in doctor.findings()}


def test_every_driver_and_what_a_run_needs_is_checked() -> None:
    names = {"descriptors", "cores", "results", "CPU of others", "timer", "memory", "Python"}
    assert names | {*catalog.drivers()} <= found().keys()


def test_a_quiet_machine_is_no_error_and_all_is_printed() -> None:
    said = fab_here("doctor")
    shown = {line[:7].strip(): None for line in said.stdout.splitlines()}
    assert shown.keys() <= {OK, WARNING}
    assert len(said.stdout.splitlines()) == len(found())
    assert (said.returncode, said.stderr) == (0, "")


@pytest.mark.parametrize(
    ("changes", "name", "words"),
    [
        ({"others_cpu": 0.5}, "CPU of others", "50.0 %, more than 10 %: end the other processes"),
        (
            {"others_cpu": 0.5, "busiest": ("cc1 (pid 7, 1.0 cores)",)},
            "CPU of others",
            "50.0 %, more than 10 %: end the other processes, such as cc1 (pid 7, 1.0 cores)",
        ),
        ({"steal": 0.2}, "CPU stolen", "20.0 %, more than 1 %: measure when the host is quieter"),
    ],
)
def test_a_noisy_machine_is_an_error_with_its_remedy(
    changes: dict[str, float], name: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "measure_noise", lambda: replace(QUIET, **changes))
    assert found()[name] == (WRONG, words)
    said = fab_here("doctor")
    assert (said.returncode, said.stderr.count("\n")) == (3, 1)
    assert said.stderr.endswith(f"see {name}\n")
    assert f"{WRONG:7}  {name:16}  {words}\n" in said.stdout


def test_what_is_wrong_is_first_and_optional_tools_are_the_last_warnings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    noisy = replace(QUIET, others_cpu=0.5, timer_late_ms=50.0)
    monkeypatch.setattr(host, "measure_noise", lambda: noisy)
    shown = [
        (line[:7].strip(), line[9:25].strip()) for line in fab_here("doctor").stdout.split("\n")
    ]
    assert shown[0] == (WRONG, "CPU of others")
    warnings = [name for level, name in shown if level == WARNING]
    assert [level for level, _ in shown[1 : len(warnings) + 1]] == [WARNING] * len(warnings)
    assert warnings.index("timer") < warnings.index("siege")


@pytest.mark.parametrize(
    ("changes", "name", "words"),
    [
        ({"pressure": 0.5}, "CPU pressure", "end the other processes"),
        ({"timer_late_ms": 50.0}, "timer", "percentiles below that are inaccurate"),
    ],
)
def test_what_only_blurs_figures_is_a_warning(
    changes: dict[str, float], name: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "measure_noise", lambda: replace(QUIET, **changes))
    level, said = found()[name]
    assert (level, said.rpartition(": ")[2]) == (WARNING, words)
    assert fab_here("doctor").returncode == 0


def test_tools_that_are_missing_are_warnings_with_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    levels = found()
    assert levels.pop("builtin")[0] == OK
    for name in catalog.drivers().keys() - {"builtin"}:
        level, words = levels[name]
        if importlib.util.find_spec(name):  # locust is a package, found without PATH
            assert level == OK
            continue
        assert level == WARNING
        assert words.startswith(f"{name} is not installed: ")
        assert " install " in words or "make suites" in words
        assert words.endswith(", or use driver=builtin")


def test_a_busy_port_and_a_wrong_name_for_a_python_are_warnings_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONS", "3.99=/nope/python3")
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        monkeypatch.setattr(doctor, "PORTS", {port: "run_server"})
        levels = found()
    assert levels[f"port {port}"][0] == WARNING
    assert f"use port={port + 1}" in levels[f"port {port}"][1]
    expected = "no Python at '/nope/python3': fix PYTHONS"
    assert levels["Python 3.99"] == (WARNING, expected)


def _limit() -> None:
    """Leave the process to come one core and few descriptors."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, 1000))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


@pytest.mark.server
def test_limits_of_the_process_are_found_by_the_real_command(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = subprocess.run(
        [FAB, "doctor"],
        cwd=ROOT,
        env={**os.environ, "RESULTS": str(tmp_path / "file")},
        preexec_fn=_limit,
        capture_output=True,
        text=True,
        timeout=60,
    )
    levels = {
        line[9:25].strip(): (line[:7].strip(), line[27:]) for line in said.stdout.splitlines()
    }
    fix = "1000: not enough for 1,000 users: raise ulimit -n"
    assert levels["descriptors"] == (WARNING, fix)
    assert levels["cores"][0] == WRONG
    assert levels["cores"][1].startswith("1: load tool and server share one")
    assert levels["results"][0] == WRONG
    assert "set RESULTS=folder" in levels["results"][1]
    assert (said.returncode, said.stderr.count("\n")) == (3, 1)
    assert "cores, results" in said.stderr


def test_no_folder_for_temporary_files_is_wrong_and_all_else_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc"])
    level, message = found()["temporary files"]
    assert level == WRONG
    assert message.endswith("or set TMPDIR to a folder with free space")
    assert {*catalog.drivers()} <= found().keys()


@pytest.mark.parametrize(("quota", "words"), [("50000", "0.5 CPUs"), ("100000", "1 CPU")])
def test_a_cpu_quota_is_named_beside_the_cores(
    quota: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cores = len(os.sched_getaffinity(0))
    assert "CPU quota" not in found() or resource_limits.own_cpu_quota() is not None
    (tmp_path / "cpu.max").write_text(f"{quota} 100000\n")
    (tmp_path / "own").write_text("0::/\n")
    monkeypatch.setattr(resource_limits, "ROOT", tmp_path)
    monkeypatch.setattr(resource_limits, "OWN", tmp_path / "own")
    if cores > 1:
        level, message = found()["CPU quota"]
        assert (level, message.startswith(f"{words} of {cores} cores: ")) == (WRONG, True)
    assert found()["cores"][1].startswith(str(cores))
    assert host.sentence({"cores": 1, "cpu_quota": 0.5}).startswith(
        "unknown CPU, a quota of 0.5 CPUs,"
    )
