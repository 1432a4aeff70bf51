"""The examples in docs/ci.rst are valid for GitHub and GitLab, and its commands are valid."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import docutils.core
import docutils.nodes
import pytest

from offload.cli.fab import commands_of
from offload.cli.program import OFFLOAD
from offload.engine import intervals
from offload.studies.gate.formats import FOLDER, FORMATS
from tests import ROOT

PAGE = ROOT / "docs" / "ci.rst"
SCHEMAS = {"GitHub Actions": "vendor.github-workflows", "GitLab": "vendor.gitlab-ci"}
yaml = pytest.importorskip("yaml")


def examples() -> dict[str, str]:
    """Return the YAML of each section."""
    quiet = {"report_level": 3, "halt_level": 3, "syntax_highlight": "none"}
    document = docutils.core.publish_doctree(PAGE.read_text(), settings_overrides=quiet)
    found = {}
    for section in document.findall(docutils.nodes.section):
        for block in section.findall(docutils.nodes.literal_block):
            if "yaml" in block["classes"] and block.parent is section:
                found[section.next_node(docutils.nodes.title).astext()] = block.astext()
    return found


def test_there_is_an_example_for_each_system() -> None:
    assert list(examples()) == list(SCHEMAS)


def check(text: str, schema: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = folder / "example.yml"
    path.write_text(text)
    words = ["-m", "check_jsonschema", "--builtin-schema", schema, str(path)]
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=100)


@pytest.mark.server
@pytest.mark.timeout(120)
@pytest.mark.parametrize("title", SCHEMAS)
def test_an_example_is_valid_by_the_schema_of_its_system(title: str, tmp_path: Path) -> None:
    pytest.importorskip("check_jsonschema")
    done = check(examples()[title], SCHEMAS[title], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("title", SCHEMAS)
def test_an_example_without_its_commands_is_not_valid(title: str, tmp_path: Path) -> None:
    pytest.importorskip("check_jsonschema")
    text = re.sub(r"(?m)^( *)(script|steps):", r"\1stepz:", examples()[title])
    assert check(text, SCHEMAS[title], tmp_path).returncode == 1


def steps(title: str) -> list[str]:
    """Return the shell commands of an example."""
    values = yaml.safe_load(examples()[title])
    if title == "GitLab":
        return [str(line) for line in values["gate"]["script"]]
    return [step["run"] for step in values["jobs"]["gate"]["steps"] if "run" in step]


@pytest.mark.parametrize("title", SCHEMAS)
def test_its_command_can_be_typed_and_its_files_are_written(title: str) -> None:
    [typed] = [line for line in steps(title) if line.startswith("offload ")]
    [(name, *words)] = commands_of(typed.split()[1:])
    assert name == "compare_runs"
    assert OFFLOAD.parse(name, words)[1].arguments["given"].against == "base"
    files = {f"results/{FOLDER}/{name}" for name, _ in FORMATS.values()}
    named = set(re.findall(r"results/gate/[\w.]+", examples()[title]))
    assert named
    assert named <= files


def test_an_undecided_gate_is_a_warning_and_a_loss_is_not() -> None:
    values = yaml.safe_load(examples()["GitLab"])
    assert values["gate"]["allow_failure"] == {"exit_codes": 7}
    for code, expected in ((0, 0), (7, 0), (1, 1)):
        done = subprocess.run(["bash", "-c", f"(exit {code}) || test $? -eq 7"], timeout=20)
        assert done.returncode == expected


def test_every_format_is_listed() -> None:
    text = PAGE.read_text()
    for name, (file, _) in FORMATS.items():
        assert re.search(rf"^``{name}`` +{re.escape(file)} ", text, re.M), name


def test_the_number_of_rounds_is_that_of_the_rule() -> None:
    text = PAGE.read_text()
    rows = re.findall(r"^(none|\d+ %) +(\d+) % +(\d+)$", text, re.M)
    assert len(rows) == 5
    z, ten = (intervals.normal_quantile(1 - intervals.GATE.early / 2 / n) for n in (1, 10))
    assert f"z = {z:.1f} for one case and {ten:.1f} for ten" in text
    for loss, sd, shown in rows:
        true = 0 if loss == "none" else int(loss.split()[0])
        distance = 100 * abs(math.log(0.95) - math.log(1 - true / 100))
        needed = ((z + 1.645) * int(sd) / distance) ** 2
        assert int(shown) == pytest.approx(needed, rel=0.06), (loss, sd)
