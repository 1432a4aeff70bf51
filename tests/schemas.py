"""Validate what commands print with format=json by the JSON schemas of the product."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from offload.registry.places import PACKAGE

SCHEMAS = {
    path.name.removesuffix(".schema.json"): json.loads(path.read_text())
    for path in sorted(PACKAGE.rglob("*.schema.json"))
}
OTHERS = {  # commands whose schema has not their name
    "quick": ("results",),
    "report": ("results",),
    "run_suite": ("results",),
    "run_all_load_tests": ("results",),
    "run_load_test": ("measure",),
    "compare_runs": ("gate",),
    "resume": ("measure", "compare", "scale", "capacity", "gil", "gate", "advise", "results"),
}


def validate(command: str, text: str) -> int:
    """Return the number of values of a text; raise an error unless the command's schema has them.

    `report` and `run_suite` print a list for several runs, `watch` one object in each line.
    """
    names = OTHERS.get(command, (command,))
    printed = [*map(json.loads, text.splitlines())] if command == "watch" else [json.loads(text)]
    if names == ("results",) and isinstance(printed[0], list):
        [printed] = printed
    for value in printed:
        if len(names) > 1:
            assert any(_validator(name).is_valid(value) for name in names), f"{command}: {value}"
        else:
            _validator(names[0]).validate(value)
    return len(printed)


def check_output(words: Sequence[str], printed: str) -> None:
    """Validate what words of `fab` or `offload` printed, if they ask for JSON."""
    parts = [part for word in words for part in word.replace(":", ",").split(",")]
    if not printed or not {"format=json", "--format=json"} & {*parts}:
        return
    command = parts[0].replace("-", "_")
    if command in OTHERS or command in SCHEMAS:
        validate(command, printed)


@cache
def _validator(name: str) -> Any:
    from jsonschema import Draft202012Validator
    from referencing import Registry, Resource

    known = [(each["$id"], Resource.from_contents(each)) for each in SCHEMAS.values()]
    return Draft202012Validator(SCHEMAS[name], registry=Registry().with_resources(known))
