"""A missing package or tool of a suite is reported in one line with the install command."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from contextlib import closing
from pathlib import Path

import pytest

from offload import loads
from offload.cli import runner
from offload.engine import builder
from offload.engine.builder import tool_flags
from offload.engine.plan import Plan, Sequential
from offload.engine.record import LONG, Record
from offload.engine.run import run
from offload.errors import MachineError, RunError
from offload.registry import places
from offload.studies import suite
from offload.suites import Case
from tests import ROOT
from tests.records import changed, new_record

AB = "ab is not installed: sudo apt install apache2-utils"
OWN = {"fastapi", "uvicorn"}  # which are imported by their own names, beside what is in them
IMPORTED = {named: name for name, named in places.PROVIDED_BY.items() if named not in OWN}
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
LINES = [*EXTRAS["suites"], *EXTRAS["cluster"]]
PACKAGES = [re.split(r"[^\w-]", line)[0] for line in LINES]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_of_the_suites_that_is_here_can_be_imported(package: str) -> None:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed: make test-all")
    name = package.replace("-", "_")
    words = f"import {IMPORTED.get(name, name)}"
    if "django" in name:  # which wants its settings first
        words = f"from django.conf import settings; settings.configure(); {words}"
    said = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stderr


def test_a_plan_without_its_published_tool_takes_builtin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert loads.missing("ab") == AB
    plan = suite.suite_plan("fastapi_strawberry", "", "", True, None)
    assert (plan.driver, plan.missing) == ("builtin", AB)
    assert suite.suite_plan("fastapi_strawberry", "", "builtin", True, None).missing is None


def test_a_run_without_its_published_tool_reports_it_when_it_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "continue_run", lambda *_: [])
    case = Case("threads", "noop_sync")
    for missing, told in (
        (AB, f"then a longer run of each with builtin ({AB}): "),
        (None, "builtin: "),
    ):
        runner.start_run(Plan("measure", (case,), 1, "builtin", Sequential(), missing))
        assert told in capsys.readouterr().err


@pytest.mark.server
def test_a_row_without_its_published_tool_reports_it(tmp_path: Path) -> None:
    case = Case("threads", "noop_sync", users=2, requests=10)
    plan = Plan("measure", (case,), 1, "builtin", Sequential(quick=True), AB)
    with closing(run(plan, tmp_path)) as running:
        [record] = next(running)
    assert (record.trial.kind, record.result.completed) == (LONG, 10)
    assert f"tool: {AB}; builtin is used instead" in map(str, record.flags)


def test_a_row_that_was_not_measured_had_nothing_in_the_place_of_its_tool() -> None:
    record = new_record(Case("threads", "noop_sync"), "run", None)
    assert tool_flags(changed(record, kind=LONG), AB) == ()


def test_a_suite_without_its_packages_ends_in_one_line_with_the_command() -> None:
    def unavailable(task: str, error: MachineError) -> Record:
        facts = builder.case_facts(Case("threads", task), None)
        return builder.unavailable(builder.new_trial("run"), facts, {}, error)

    records = [
        unavailable("noop_sync", MachineError("a needs x", "make suites")),
        unavailable("sha256_sync", MachineError("b needs y", "make suites")),
    ]
    with pytest.raises(RunError, match=r"^no row has figures: a needs x: make suites$"):
        suite.check_figures(records)
    other = unavailable("noop_sync", MachineError("no Python", "get one"))
    with pytest.raises(RunError, match="each row has its problem"):
        suite.check_figures([*records, other])
