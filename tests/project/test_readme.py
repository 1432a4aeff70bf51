"""README, CONTRIBUTING, docs/ and lab/ contain only existing targets, commands and paths."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import docutils.core
import docutils.nodes
import pytest

from lab import corpus
from lab.__main__ import experiments
from lab.commands import PROGRAM as LAB_PROGRAM
from offload import errors
from offload.causes import diagnosis, gains, rules
from offload.causes.ceiling import Ceiling
from offload.causes.figures import Signs
from offload.causes.victims import Victim
from offload.cli.fab import commands_of
from offload.cli.program import OFFLOAD, Parameters
from offload.documents import comparisons
from offload.documents.rows import rows
from offload.engine import journal
from offload.errors import UsageError
from offload.registry import catalog
from offload.registry.places import PACKAGE
from offload.serving import health
from offload.serving.metrics import probe
from offload.studies.advise import answer, application
from offload.studies.advise.evidence import Latency
from offload.studies.gate.formats import FORMATS
from offload.suites import load_suite
from tests import ROOT

BUILT = ROOT / "docs" / "_build"  # the site of make docs
DOCS = sorted(p for p in (ROOT / "docs").rglob("*.rst") if BUILT not in p.parents)
OWN_PAGES = [page for page in DOCS if ".. include::" not in page.read_text()]
LAB = sorted((ROOT / "lab").glob("*.rst"))
PAGES = [ROOT / "README.rst", ROOT / "CONTRIBUTING.rst", *OWN_PAGES, *LAB]
SERVERS, TASKS = catalog.servers(), catalog.tasks()
OPTION = re.compile(r"(?<![\w.])([a-z_]+)=")
SIGNS = {name for name in vars(Signs) if name[0] != "_"} | {"application"}
ADVICE = {
    *re.findall(r'"(\w+)": ', Path(answer.__file__).read_text()),
    *(each.name for each in dataclasses.fields(Latency)),
    *(each.name for each in dataclasses.fields(application.WorkerMemory)),
    *re.findall(r'"(\w+)": ', Path(application.__file__).read_text()),
    *(rule.kind for rule in diagnosis.RULES),
    *(rule.kind for rule in diagnosis.LAST_WORDS),
    *(each.name for each in dataclasses.fields(rules.Cause)),
    *(each.name for each in dataclasses.fields(Ceiling)),
    *(each.name for each in dataclasses.fields(Victim)),
    *(each.name for each in dataclasses.fields(gains.Gain)),
}
GATE = {"p99", *FORMATS}  # of compare_runs
RECORD = set(re.findall(r"^``(\w+)`` ", (ROOT / "docs" / "record.rst").read_text(), re.M))
PROTECTION = {  # its counts and states, and what its metrics need
    *probe.NAMES,
    *(health.READY, health.DRAINING, "unavailable", health.PACKAGE, "protection"),
}
OTHERS = {  # single words that are code, and none of ours
    *("def", "fab", "serve", "x16", "ulimit"),
    *("process", "forkserver", "process_vm_readv", "ptrace_scope"),
    "allow_failure",
    "gc",  # Python's module
    "slowhttptest",  # in the fault lab
    "goodput",  # of an overload
    "who_unavailable",  # in the JSON of gil, advise and watch
}
MADE = {  # by commands and by make
    *("results/results.txt", "results/gate/", "results/gate/gate.md", "results/gate/junit.xml"),
    "records.jsonl",  # in the folder of a run
    "lab/data/gates.jsonl",  # by gate_check
    *(".venv/bin", ".venv/bin/activate"),
}
OF_A_RUN = {"claims.rst", "run.json", "records.jsonl.gz"}  # in each committed run
EXAMPLES = {  # files that a contributor would add
    "tasks/total.py",
    "servers/shortest.py",
    "src/offload/loads/short_ab.py",
    "src/offload/suites/short.py",
    "src/offload/studies/faster_python.py",
    "orders.py",
}
OWN = ("path/", "src/", "shop.")  # what a user has


def parse(page: Path) -> docutils.nodes.document:
    quiet = {"report_level": 3, "halt_level": 3, "syntax_highlight": "none"}
    return docutils.core.publish_doctree(page.read_text(), settings_overrides=quiet)


@functools.cache
def documents() -> dict[Path, docutils.nodes.document]:
    return {page: parse(page) for page in PAGES}


def texts(kind: type[docutils.nodes.Element]) -> list[str]:
    return [node.astext() for document in documents().values() for node in document.findall(kind)]


@functools.cache
def blocks() -> list[str]:
    return texts(docutils.nodes.literal_block)


@functools.cache
def words() -> list[str]:
    return [" ".join(text.split()) for text in texts(docutils.nodes.literal)]


@functools.cache
def lines() -> list[str]:
    in_blocks = [line for block in blocks() for line in block.splitlines()]
    return [line.partition("#")[0].strip() for line in in_blocks] + words()


@functools.cache
def fab_lines() -> list[str]:
    """List the arguments of every command that is shown."""
    found = [re.search(r"(?:^|/)fab((?: [\w:,=/.@+*-]+)+)$", line) for line in lines()]
    return sorted({" ".join(match[1].split()) for match in found if match})


@pytest.fixture(scope="module")
def commands() -> dict[str, Parameters]:
    return OFFLOAD.all_parameters()


def test_every_page_shows_code_and_commands() -> None:
    assert len(blocks()) >= 10
    assert len(words()) >= 150
    assert len(fab_lines()) >= 35


def test_every_command_shown_can_be_typed() -> None:
    for line in fab_lines():
        typed = line.removeprefix("--help ").split()
        if typed[0] != "--list":
            assert [*commands_of(typed)], line


def test_every_entry_of_the_laboratory_shown_exists() -> None:
    found = [re.search(r"python -m lab ([a-z]\w+)((?: \w+=\S+)*)", line) for line in lines()]
    shown = [(match[1], OPTION.findall(match[2])) for match in found if match]
    assert len({name for name, _ in shown}) >= 8
    for name, options in shown:
        if name in LAB_PROGRAM.commands:
            assert {*options} <= {*LAB_PROGRAM.parameters(name)}, name
        else:
            assert name in experiments()


def arguments(*names: str) -> list[tuple[str, dict[str, str], list[str]]]:
    """Return command, named and other arguments of every line that has one of these commands."""
    found = []
    for line in fab_lines():
        name, _, rest = line.partition(":")
        if name in names and rest:
            parts = rest.split(",")
            named = dict(part.split("=", 1) for part in parts if OPTION.match(part))
            found.append((name, named, [part for part in parts if not OPTION.match(part)]))
    return found


def is_placeholder(word: str) -> bool:
    return word.isupper() or word.startswith(OWN)


def test_every_server_and_task_of_a_command_exists() -> None:
    seen = set()
    for name, _, others in arguments("run_server", "measure", "compare", "scale", "gil"):
        pairs = [others] if name == "run_server" else [other.split("/", 1) for other in others]
        for pair in [["3", *others]] if name == "gil" else pairs:
            server, *task = pair
            if is_placeholder(server):
                continue
            settings = r"(?<=\w)(x\d+){0,2}(-protected)?(@[\w.-]+)?$"
            catalog.find_server(re.sub(settings, "", server))
            seen.add(server)
            for each in (one for one in task if not is_placeholder(one)):
                module, _, function = each.rpartition(":")
                if module.startswith("docs."):
                    assert callable(getattr(importlib.import_module(module), function))
                else:
                    assert each in {**TASKS, **corpus.entries()}
                seen.add(each)
    assert len(seen) >= 6


def test_every_suite_group_and_run_of_a_command_exists() -> None:
    suites = arguments("run_suite")
    assert len(suites) >= 2
    for _, named, [suite] in suites:
        if is_placeholder(suite):
            continue
        for each in catalog.suites() if suite == "all" else [suite]:
            groups = {"all", *load_suite(each).GROUPS}
            assert named.get("rows", "all") in groups
    shown = arguments("report", "claims")
    runs = [run for _, named, others in shown for run in (named.get("run"), *others) if run]
    assert runs
    assert [run for run in runs if not journal.has_records(ROOT / "results" / run)] == []


def test_every_name_is_one_of_ours(commands: dict[str, object]) -> None:
    options = {option for each in commands.values() for option in each}
    options |= {option for each in LAB_PROGRAM.all_parameters().values() for option in each}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    markers = project["tool"]["pytest"]["ini_options"]["markers"]
    lanes = {line.partition(":")[0] for line in markers}
    ours = {
        "offload",
        *SERVERS,
        *TASKS,
        *catalog.drivers(),
        *catalog.suites(),
        *commands,
        *LAB_PROGRAM.commands,
        *options,
        *lanes,
        "dependencies",
        *project["project"]["optional-dependencies"],
        *project["dependency-groups"],
        *SIGNS,
        *PROTECTION,
        *ADVICE,
        *GATE,
        *RECORD,
    }
    named = {word for word in words() if re.fullmatch(r"[a-z][a-z0-9_]+", word)}
    assert len(named & ours) >= 35
    assert named - ours - OTHERS == set()
    assert named >= OTHERS  # else they need not stand here
    shown = {option for line in lines() for option in OPTION.findall(line)}
    assert len(shown & options) >= 12
    assert {option for word in words() for option in OPTION.findall(word)} - options <= {
        "zero_copy_result",
        "zero_copy_args",
    }


def test_every_numbered_server_has_its_number() -> None:
    text = (ROOT / "docs" / "reference.rst").read_text()
    numbered = {number: name for name, number in re.findall(r"^\* ``(\w+)`` \((\d)\):", text, re.M)}
    assert numbered == {str(e.number): e.name for e in SERVERS.values() if e.number is not None}


def test_the_reference_has_every_command_with_its_options(commands: dict[str, object]) -> None:
    text = (ROOT / "docs" / "reference.rst").read_text()
    for name, options in commands.items():
        _, _, help_text = text.partition(f"\n**{name}**: ")
        assert help_text, name
        help_text = help_text.partition("\n**")[0]
        for option in options:
            assert re.search(rf"^ +(--)?{option.replace('_', '-')} +\S", help_text, re.M), (
                f"{name}: {option}"
            )


def test_the_reference_has_every_exit_code() -> None:
    text = (ROOT / "docs" / "reference.rst").read_text().partition("Exit codes")[2]
    text = text.partition("Servers\n---")[0]
    listed = {int(code) for code in re.findall(r"^(\d+) ", text, re.MULTILINE)}
    ours = {each.exit_code for each in [errors.UserError, *all_subclasses(errors.UserError)]}
    assert listed == {0, 130, *ours}


def all_subclasses(of: type[errors.UserError]) -> list[type[errors.UserError]]:
    direct = of.__subclasses__()
    own = [each for each in direct if each.__module__ == errors.__name__]
    return [*own, *(one for each in own for one in all_subclasses(each))]


def test_the_readme_can_be_read_in_a_minute() -> None:
    lines = (ROOT / "README.rst").read_text().splitlines()
    assert len(lines) <= 150
    assert max(map(len, lines)) <= 100


@pytest.mark.slow  # make check runs the same commands
@pytest.mark.parametrize("script", ["readme", "gil_table", "executors_table"])
def test_generated_parts_are_by_the_committed_records(script: str) -> None:
    command = [sys.executable, "-m", f"scripts.pages.{script}", "--check"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_pair_has_one_ratio_in_every_page() -> None:
    found = comparisons.effects(rows(journal.read(ROOT / "results" / "example-tornado")))
    ratios = {each.threads.first.case.task: each.ratio for each in found}
    assert len(ratios) >= 5
    text = (ROOT / "README.rst").read_text().partition(".. answer-begin")[2]
    answer = re.findall(r"^    (\w+) .* ([\d.]+)x \(", text, re.M)
    claimed = re.findall(
        r"\(4/(\w+)\s+over\s+3/(\w+)\)\n.*\n     - ([\d.]+)x \(",
        (ROOT / "docs" / "claims.rst").read_text(),
    )
    shown = [*answer, *((one, ratio) for one, other, ratio in claimed if one == other)]
    assert len(shown) >= 10
    for task, ratio in shown:
        assert ratio == f"{ratios[task]:.2f}", task
    costs = re.findall(
        r"^    (\w+) .* (-?[\d.]+) \(-?[\d.]+ to ", (ROOT / "docs" / "gil.rst").read_text(), re.M
    )
    shared = {task: float(cost) for task, cost in costs if task in ratios}
    assert len(shared) >= 3
    for task, cost in shared.items():
        assert cost == pytest.approx(1 - 1 / ratios[task], abs=0.006), task
    picture = (ROOT / "docs" / "effects.svg").read_text()
    assert [task for task, ratio in ratios.items() if f">{ratio:.2f}x<" not in picture] == []


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {target for line in lines() for target in re.findall(r"\bmake ([a-z][\w-]*)$", line)}
    assert named >= {"setup", "demo", "test", "check", "suites"}
    assert named <= targets


def paths() -> dict[str, Path]:
    """Return every path that is named, with the file or folder that it must be."""
    found = {}
    for line in (re.sub(r"::\w+", "", line) for line in lines()):  # a test in a file
        for word in re.findall(r"(?<![\w/:=.~-])[\w.-]+(?:/[\w.*-]*)+(?![\w:@])", line):
            top = word.partition("/")[0]
            bases = [base for base in (ROOT, PACKAGE) if (base / top).is_dir()]
            if bases and top != ".venv":
                found[word] = bases[0] / word
        for word in re.findall(r"^[\w-]+\.(?:txt|rst|py|json|jsonl)$", line):
            found[word] = ROOT / word
    for page, document in documents().items():
        for node in document.findall(docutils.nodes.reference):
            uri = node.get("refuri", "")
            if uri and "://" not in uri:
                found[f"{page.name}: {uri}"] = page.parent / uri.partition("#")[0]
        for image in document.findall(docutils.nodes.image):
            found[f"{page.name}: {image['uri']}"] = page.parent / image["uri"]
    return found


def test_every_path_named_is_there() -> None:
    named = paths()
    assert len(named) >= 25
    for word in sorted(named.keys() - MADE - EXAMPLES):
        path = named[word]
        if word in OF_A_RUN:
            path = ROOT / "results" / "example" / word
        places = list(ROOT.glob(str(path.relative_to(ROOT)).replace("SUITE", "*")))
        assert places or path.exists(), f"{word}: nothing there"


def test_every_section_that_is_linked_is_there() -> None:
    linked = []
    for page, document in documents().items():
        for node in document.findall(docutils.nodes.reference):
            name, _, anchor = node.get("refuri", "").partition("#")
            if name.endswith(".rst") and anchor:
                other = documents()[(page.parent / name).resolve()]
                linked.append(anchor)
                assert anchor in other.ids, f"{page.name}: {name} has no section {anchor}"
    assert len(linked) >= 5


def test_what_does_not_exist_is_found() -> None:
    for line in ("measur:3/sleep_sync", "measure:3/sleep_sync,quik=yes"):
        with pytest.raises(UsageError):
            [*commands_of([line])]
