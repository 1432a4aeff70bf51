"""The answer as one JSON object."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from offload.bench.advice import latency, strategies, unmeasured
from offload.bench.advice.answer import Answer, Option
from offload.bench.advice.latency import Percentile
from offload.bench.advice.question_file import OtherPython
from offload.bench.advice.unmeasured import Unmeasured
from offload.reports.advice import changes, next_steps, reasons, warnings
from offload.reports.advice.handlers import Handler


def as_json(answer: Answer, handler: Handler | None = None) -> str:
    """Return the object that docs/reference.rst describes; rates are in requests/s."""
    return json.dumps(as_dict(answer, handler), indent=2)


def as_dict(answer: Answer, handler: Handler | None = None) -> dict[str, Any]:
    """Return the values of the object."""
    chosen = answer.chosen
    return {
        "task": answer.question.probe.task,
        **_option(chosen, answer.is_measured),
        "tie": list(answer.tie),
        "alternatives": [
            *(_option(option, answer.is_measured) for option in answer.others),
            *(_server(name, chosen) for name in strategies.other_servers(chosen.strategy)),
        ],
        "not_measured": [_unmeasured(each) for each in unmeasured.of_answer(answer)],
        "is_measured": answer.is_measured,
        "sure": answer.sure,
        "why": [*reasons.sentences(answer)],
        "changes": [*changes.sentences(answer)],
        "pythons": [_python(each) for each in answer.question.pythons],
        "next": " ".join(next_steps.sentences(answer)),
        "flags": [*warnings.sentences(answer), *(problem.text for problem in answer.problems)],
        "handler": handler and handler.values,
    }


def _python(found: OtherPython) -> dict[str, Any]:
    best = found.prediction
    return {
        "python": found.name,
        "strategy": best and best.strategy,
        "workers": best and best.workers,
        "predicted_rate": best and best.rate,
        "ratio": found.ratio,
        "problem": found.problem,
    }


def percentiles(found: Sequence[Percentile]) -> list[dict[str, Any]]:
    """Return the percentiles at each load, as a share of the rate."""
    return [
        {"load": share, **asdict(each)} for share, each in zip(latency.LOADS, found, strict=False)
    ]


def _option(option: Option, is_measured: bool) -> dict[str, Any]:
    predicted_mib = option.prediction.memory_mib
    verdict = option.compared.verdict if option.compared else None
    ratio: dict[str, Any] = {}
    if verdict is not None:
        ratio = {
            "ratio": verdict.ratio,
            "ratio_low": verdict.low,
            "ratio_high": verdict.high,
            "verdict": verdict.outcome,
        }
    return {
        "server": option.strategy,
        "strategy": option.strategy,
        "workers": option.workers,
        "rate": option.rate.value,
        "rate_low": option.rate.low,
        "rate_high": option.rate.high,
        "predicted_rate": option.prediction.rate,
        "p95_s": percentiles(option.percentiles),
        "memory_mib": option.memory_mib if is_measured else predicted_mib,
        "memory_low_mib": min(option.memories_mib, default=None) if is_measured else predicted_mib,
        "predicted_memory_mib": predicted_mib,
        "limit": option.prediction.limit,
        **ratio,
    }


def _server(name: str, chosen: Option) -> dict[str, Any]:
    """Return another server with the chosen strategy, which was not measured."""
    known = {"server": name, "strategy": chosen.strategy, "workers": chosen.workers, "p95_s": []}
    return {**dict.fromkeys(_option(chosen, is_measured=False)), **known}


def _unmeasured(found: Unmeasured) -> dict[str, Any]:
    prediction, problem = found.prediction, found.problem
    return {
        "strategy": found.strategy,
        "workers": prediction and prediction.workers,
        "predicted_rate": prediction and prediction.rate,
        "why": found.why,
        "problem": problem and problem.text,
    }
