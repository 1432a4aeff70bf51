"""The answer for an application as one JSON object."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from offload.bench.advice.application.answer import ApplicationAnswer, Option, WorkerMemory
from offload.bench.analysis.application_causes import Cause
from offload.reports.advice.answer_json import percentiles
from offload.reports.advice.application import answer_text, changes


def as_json(answer: ApplicationAnswer) -> str:
    """Return the object that docs/reference.rst describes."""
    return json.dumps(as_dict(answer), indent=2)


def as_dict(answer: ApplicationAnswer) -> dict[str, Any]:
    """Return the values of the object; rates are in requests/s, times in s, memory in MiB."""
    question, chosen = answer.question, answer.chosen
    request = chosen.case.request
    return {
        "task": question.work,
        "kinds": [*question.kinds],
        "request": None if request is None else dict(request.masked),
        "users": question.users,
        **_option(chosen),
        "p95_s": percentiles(answer.percentiles),
        "memory_mib": answer.memory_mib,
        "worker_memory_mib": _memory(answer.worker),
        "preloaded_worker_memory_mib": _memory(answer.preloaded),
        "alone_s": answer.probe and answer.probe.alone_s,
        "tie": [*answer.tie],
        "alternatives": [_option(option) for option in answer.others],
        "gains_nothing_beyond": _size(chosen) if answer.gains_nothing_beyond else None,
        "causes": _causes(answer.causes),
        "remaining_causes": _causes(answer.remaining),
        "is_measured": True,
        "is_interrupted": answer.is_interrupted,
        "sure": answer.sure,
        "why": answer_text.causes(answer),
        "changes": [*changes.sentences(answer)],
        "next": answer_text.next_step(answer),
        "flags": [
            *answer_text.warnings(answer),
            *(problem.text for problem in answer.problems),
        ],
        "deployment": answer_text.deployment_command(answer),
    }


def _option(option: Option) -> dict[str, Any]:
    compared = {}
    if option.share is not None:
        verdict = option.compared.verdict if option.compared else None
        compared = {
            "ratio": option.share,
            "ratio_low": verdict and verdict.low,
            "ratio_high": verdict and verdict.high,
            "verdict": verdict and verdict.outcome,
        }
    return {
        "strategy": option.case.server,
        "workers": option.size.total,
        **_size(option),
        "rate": option.rate.value,
        "rate_low": option.rate.low,
        "rate_high": option.rate.high,
        "predicted_rate": option.prediction and option.prediction.rate,
        "limit": option.prediction and option.prediction.limit,
        "python": option.case.python,
        "command": option.case.command,
        **compared,
    }


def _size(option: Option) -> dict[str, int | None]:
    return {"processes": option.size.processes, "threads": option.size.threads}


def _memory(found: WorkerMemory | None) -> dict[str, float | None] | None:
    return None if found is None else {"pss": found.pss_mib, "private": found.private_mib}


def _causes(found: Sequence[Cause]) -> list[dict[str, Any]]:
    return [asdict(cause) for cause in found]
