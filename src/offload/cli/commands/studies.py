"""The commands of studies: each is measured, answered and reported in the same way."""

from __future__ import annotations

import sys
from typing import Any

from offload.cli.answers import print_answer
from offload.cli.plan_run import start_run
from offload.cli.program import command
from offload.studies import Study, studies


def register(name: str, study: Study[Any, Any]) -> None:
    """Add the command of a study, whose options are those of the study."""

    def run(given: Any) -> None:
        plan = study.plan(given)
        for line in study.notices(plan):
            print(line, file=sys.stderr)
        folder, records = start_run(plan, given.output.open)
        print_answer(plan, folder, records, given.output.format)

    run.__name__, run.__doc__ = name, study.options.__doc__
    run.__annotations__ = {"given": study.options, "return": None}
    run.__defaults__ = (study.options(),)
    command(study.group)(run)


for each, found in studies().items():
    register(each, found)
