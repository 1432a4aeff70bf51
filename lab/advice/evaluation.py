"""The evaluation of the advice on a set of functions, from the records in a folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.advice import (
    answers,
    confirmation,
    disagreement,
    judgement,
    recorded_answer,
    truth,
)
from lab.advice.choice import Confirmation
from lab.advice.judgement import Requirement
from lab.advice.recorded_answer import RecordedAnswer
from lab.advice.truth import Truth
from offload.bench.advice import question_file
from offload.bench.advice.prediction.model import Model
from offload.bench.planning import plan_file, planned_records
from offload.bench.records.record import Record

CONFIRMATION, DISAGREEMENT = "confirmation", "disagreement"  # names of folders


@dataclass(frozen=True)
class Evaluation:
    """What was measured about each function: the truth, the answers, and the confirmation.

    `truths`, `models` and `confirmations` are by task; `records` are those of the truth. `ties` are
    functions whose answers disagree, and for which no strategy is certainly the best.
    """

    truths: Mapping[str, Truth]
    answers: Sequence[RecordedAnswer]
    models: Mapping[str, Model]
    confirmations: Mapping[str, Confirmation]
    records: Sequence[Record]
    ties: Collection[str] = ()

    @property
    def requirements(self) -> list[Requirement]:
        """The requirements, each with what was measured."""
        return judgement.requirements(self.truths, self.answers, self.confirmations, self.ties)


def pool(found: Sequence[Evaluation]) -> Evaluation:
    """Return evaluations of different functions as one."""
    return Evaluation(
        truths={task: truth for each in found for task, truth in each.truths.items()},
        answers=[answer for each in found for answer in each.answers],
        models={task: model for each in found for task, model in each.models.items()},
        confirmations={task: own for each in found for task, own in each.confirmations.items()},
        records=[record for each in found for record in each.records],
        ties={task for each in found for task in each.ties},
    )


def read(folder: Path) -> Evaluation:
    """Read what check_advice measured from its folder; raise StorageError.

    It has no confirmations until the last step of check_advice, which measures the choices again.
    """
    planned = plan_file.load(folder)
    records = planned_records.read(folder, planned)
    truths = {found.task: found for found in truth.of_records(planned, records)}
    recorded = answers.read(folder)
    first = recorded_answer.first_answers(recorded)
    models = {
        each.task: question_file.load(answers.own_folder(folder, each.task)).model for each in first
    }
    confirmations: Mapping[str, Confirmation] = {}
    last_step = folder / CONFIRMATION
    if plan_file.exists(last_step):
        confirmations = confirmation.read(plan_file.load(last_step), first, last_step)
    ties: Collection[str] = ()
    if plan_file.exists(folder / DISAGREEMENT):
        ties = disagreement.read_ties(folder / DISAGREEMENT)
    return Evaluation(truths, recorded, models, confirmations, records, ties)
