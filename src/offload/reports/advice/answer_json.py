"""The answer as one JSON object."""

from __future__ import annotations

import json
from typing import Any

from offload.bench.advice import latency
from offload.bench.advice.answer import Answer, Option
from offload.reports.advice import reasons
from offload.reports.advice.handlers import Handler


def as_json(answer: Answer, handler: Handler | None = None) -> str:
    """Return the object that docs/reference.rst describes; rates are in requests/s."""
    return json.dumps(as_dict(answer, handler), indent=2)


def as_dict(answer: Answer, handler: Handler | None = None) -> dict[str, Any]:
    """Return the values of the object."""
    chosen = answer.chosen
    return {
        "task": answer.question.probe.task,
        **_option(chosen),
        "p95_s": [
            {
                "load": share,
                "value": each.value,
                "low": each.low,
                "high": each.high,
                "p99_s": each.p99_s,
                "at_least_s": each.at_least_s,
            }
            for share, each in zip(latency.LOADS, answer.percentiles, strict=False)
        ],
        "memory_mib": answer.memory_mib,
        "tie": list(answer.tie),
        "alternatives": [_option(option) for option in answer.others],
        "is_measured": answer.is_measured,
        "sure": answer.sure,
        "why": [*reasons.sentences(answer)],
        "changes": [*reasons.changes(answer)],
        "next": reasons.next_step(answer),
        "flags": [*reasons.warnings(answer), *(problem.text for problem in answer.problems)],
        "handler": handler and handler.values,
    }


def _option(option: Option) -> dict[str, Any]:
    verdict = option.compared.verdict if option.compared else None
    ratio = (
        {}
        if verdict is None
        else {
            "ratio": verdict.ratio,
            "ratio_low": verdict.low,
            "ratio_high": verdict.high,
            "verdict": verdict.outcome,
        }
    )
    return {
        "strategy": option.strategy,
        "workers": option.workers,
        "rate": option.rate.value,
        "rate_low": option.rate.low,
        "rate_high": option.rate.high,
        "predicted_rate": option.prediction.rate,
        "predicted_memory_mib": option.prediction.memory_mib,
        "limit": option.prediction.limit,
        **ratio,
    }
