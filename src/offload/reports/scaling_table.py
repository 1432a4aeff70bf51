"""Table of a scaling sweep and its fitted model, as text or JSON."""

from __future__ import annotations

import json

from tabulate import tabulate

from offload.bench.experiments.sweep import Sweep
from offload.bench.stats import scaling


def text(found: Sweep) -> str:
    """Render the rates over workers or users, and the model that fits them."""
    fit = found.choice.fit
    predicted = fit.predicted if fit else (None,) * len(found.points)
    lines = [
        (
            str(number),
            "-" if e.value is None else f"{e.value:.2f}/s",
            "-" if e.half_width is None else f"+-{e.half_width:.1%}",
            "-" if model is None else f"{model:.2f}/s",
        )
        for (number, e), model in zip(found.points, predicted, strict=False)
    ]
    head = (found.over, "Rate", "Interval", fit.model if fit else "Model")
    table = tabulate(lines, head, colalign=("right",) * 4, disable_numparse=True)
    return f"{table}\n\n{_fit_text(found)}"


def as_json(found: Sweep) -> str:
    """Return points and fit as a JSON object; rates are in requests/s."""
    fit = found.choice.fit
    return json.dumps(
        {
            "over": found.over,
            "points": [
                {found.over: n, "rate": e.value, "rate_low": e.low, "rate_high": e.high}
                for n, e in found.points
            ],
            "model": fit.model if fit else None,
            "parameters": dict(fit.parameters) if fit else None,
            "residual": fit.residual if fit else None,
            "peak": fit.peak if fit else None,
            "refused": found.choice.reason,
        },
        indent=2,
    )


def _fit_text(found: Sweep) -> str:
    fit, over = found.choice.fit, found.over
    if fit is None:
        return f"no model: {found.choice.reason}"
    residual = f"largest residual {fit.residual:.1%}"
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
