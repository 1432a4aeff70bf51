"""Each command that prints JSON has a schema, which the wheel contains."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from offload import studies
from offload.cli import commands
from offload.cli.program import OFFLOAD
from offload.engine import journal
from tests import ROOT
from tests.commands import offload_here
from tests.schemas import OTHERS, SCHEMAS, validate

assert commands  # they have registered themselves


def test_each_command_that_prints_json_has_a_schema() -> None:
    own = studies.commands()
    printing = {
        name
        for name, options in OFFLOAD.all_parameters().items()
        if "format" in options and (name not in own or "json" in own[name].formats)
    }
    assert len(printing) > 10
    described = {name: OTHERS.get(name, (name,)) for name in printing}
    assert {name for name, used in described.items() if not {*used} <= SCHEMAS.keys()} == set()
    assert SCHEMAS.keys() == {each for used in described.values() for each in used}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_has_an_identity_of_its_own(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["$id"] == f"urn:offload:{name}"


@pytest.mark.parametrize(
    "words", ["report example", "claims", "report runs=example+example-tornado"]
)
def test_what_commands_print_is_by_their_schema(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if words != "claims":  # which writes to results/
        monkeypatch.setattr(journal, "RESULTS", ROOT / "results")
    printed = offload_here(*words.split(), "format=json").stdout  # validated, too
    value = json.loads(printed)
    validate(words.split(maxsplit=1)[0], printed)
    for wrong in (_without_a_key(value), {"more": value}):
        with pytest.raises(Exception, match=r"required|additional|not of type"):
            validate(words.split(maxsplit=1)[0], json.dumps(wrong))


def test_the_answer_of_a_run_in_its_report_is_by_the_schema_of_its_study(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal, "RESULTS", ROOT / "results")
    found = json.loads(offload_here("report", "example-advise", "format=json").stdout)
    validate("advise", json.dumps(found["answer"]))
    del found["answer"]["rate"]
    with pytest.raises(Exception, match="'rate' is a required property"):
        validate("advise", json.dumps(found["answer"]))


def _without_a_key(value: Any) -> Any:
    changed = copy.deepcopy(value)
    first = changed[0] if isinstance(changed, list) else changed
    del first[next(key for key in first if key != "answer")]
    return changed
