"""Table of a scaling sweep and its fitted model, as text or JSON."""

from __future__ import annotations

import json

from tabulate import tabulate

from offload.bench.experiments.sweep import Sweep
from offload.bench.stats.models import scaling
from offload.reports import warnings
from offload.units import percent


def text(sweep: Sweep) -> str:
    """Render the rates over workers or users, and the model that fits them."""
    fit = sweep.choice.fit
    lines = [
        (
            str(number),
            "-" if e.value is None else f"{e.value:.2f}/s",
            "-" if e.half_width is None else f"+-{percent(e.half_width, 1)}",
            "-" if model is None else f"{model:.2f}/s",
        )
        for (number, e), model in zip(sweep.points, sweep.predicted, strict=True)
    ]
    head = (sweep.over, "Rate", "Interval", fit.model if fit else "Model")
    table = tabulate(lines, head, colalign=("right",) * 4, disable_numparse=True)
    return "\n".join([f"{table}\n\n{model_text(sweep)}", *_flags(sweep)])


def as_json(sweep: Sweep) -> str:
    """Return points and fit as a JSON object; rates are in requests/s."""
    fit = sweep.choice.fit
    return json.dumps(
        {
            "over": sweep.over,
            "points": [
                {sweep.over: n, "rate": e.value, "rate_low": e.low, "rate_high": e.high}
                for n, e in sweep.points
            ],
            "model": fit.model if fit else None,
            "parameters": dict(fit.parameters) if fit else None,
            "residual": fit.residual if fit else None,
            "peak": fit.peak if fit else None,
            "refused": sweep.choice.reason,
            "flags": _flags(sweep),
        },
        indent=2,
    )


def _flags(sweep: Sweep) -> list[str]:
    """Return the warnings on the windows of all points."""
    return warnings.of_cases((f"{sweep.over}={n}", sweep.windows[n]) for n, _ in sweep.points)


def model_text(sweep: Sweep) -> str:
    """Return the knee or the peak of the fitted model, or the reason why there is no model."""
    fit, over = sweep.choice.fit, sweep.over
    if fit is None:
        return f"no model: {sweep.choice.reason}"
    residual = f"largest residual {percent(fit.residual, 1)}"
    if fit.model == scaling.KNEE:
        if fit.peak is None:
            return f"knee: none within the measured {over}; {residual}"
        return f"knee: more than {fit.peak:.1f} {over} do not raise the rate; {residual}"
    sigma, kappa = fit.parameters["sigma"], fit.parameters["kappa"]
    peak = (
        f"no peak within the measured {over}"
        if fit.peak is None
        else f"peak at {fit.peak:.1f} {over}"
    )
    return f"USL: contention {sigma:.4f}, coherency {kappa:.6f}, {peak}; {residual}"
