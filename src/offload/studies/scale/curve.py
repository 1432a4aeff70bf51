"""A sweep and its fitted model in words, and for JSON."""

from __future__ import annotations

from offload import units
from offload.documents import Chart, Curve, Document, Spot, lines, notes
from offload.studies.scale.models import KNEE
from offload.studies.scale.sweep import NEARLY_HIGHEST, Sweep
from offload.units import percent


def document(sweep: Sweep) -> Document:
    """Return which number to use, the rates, and the model that fits them."""
    fit = sweep.choice.fit
    rows = [
        (
            str(number),
            "-" if e.value is None else f"{e.value:.2f}/s",
            "-" if e.half_width is None else f"+-{percent(e.half_width, 1)}",
            "-" if model is None else f"{model:.2f}/s",
        )
        for (number, e), model in zip(sweep.points.items(), sweep.predicted, strict=True)
    ]
    first, *more = sentences(sweep)
    return Document(
        first,
        (sweep.over, "Rate", "Interval", fit.model if fit else "Model"),
        tuple(rows),
        lines(*more, *_flags(sweep)),
        (_chart(sweep),),
        has_verdict=sweep.disturbed is None,
        numbers=(0, 1, 2, 3),
    )


def _chart(sweep: Sweep) -> Chart:
    """Return the rates with the fitted model and its knee or peak."""
    fit, over = sweep.choice.fit, sweep.over
    spots = tuple(
        Spot(n, e.value, f"{n} {over}: {units.number(e.value)}/s", e.low, e.high)
        for n, e in sweep.points.items()
        if e.value is not None
    )
    fitted = tuple(
        (float(n), rate)
        for (n, _), rate in zip(sweep.points.items(), sweep.predicted, strict=True)
        if rate is not None
    )
    return Chart(
        f"Requests per second over {over}",
        over,
        "requests/s",
        spots,
        (Curve("" if fit is None else fit.model, fitted),) if fitted else (),
        "The lines are 95 % intervals; the rule is at the knee or peak of the model.",
        None if fit is None else fit.peak,
    )


def values(sweep: Sweep) -> dict[str, object]:
    """Return points and fit for JSON; rates are in requests/s."""
    fit = sweep.choice.fit
    return {
        "over": sweep.over,
        "points": [
            {sweep.over: n, "rate": e.value, "rate_low": e.low, "rate_high": e.high}
            for n, e in sweep.points.items()
        ],
        "highest_at": sweep.highest[0],
        "enough_at": sweep.enough,
        "disturbed": sweep.disturbed and str(sweep.disturbed),
        "model": fit.model if fit else None,
        "parameters": dict(fit.parameters) if fit else None,
        "residual": fit.residual if fit else None,
        "peak": fit.peak if fit else None,
        "refused": sweep.choice.reason,
        "flags": _flags(sweep),
    }


def _flags(sweep: Sweep) -> list[str]:
    """Return the warnings on the windows of all points."""
    return notes.case_warnings((f"{sweep.over}={n}", sweep.windows[n]) for n in sweep.points)


def sentences(sweep: Sweep) -> list[str]:
    """Return which number is enough and what the model says, or why there is no verdict."""
    if sweep.disturbed is not None:
        return [f"No verdict: {sweep.disturbed}."]
    return [_measured(sweep), _model(sweep)]


def _measured(sweep: Sweep) -> str:
    """Return the number with the highest rate, and the smallest one that nearly reaches it."""
    (highest, rate), enough = sweep.highest, sweep.enough
    estimates = sweep.points
    measured = [number for number, estimate in estimates.items() if estimate.value is not None]
    words = f"Highest rate: {rate:.2f}/s with {_counted(highest, sweep.over)}"
    if enough < highest:
        words += f"; at least {percent(NEARLY_HIGHEST)} of it with {_counted(enough, sweep.over)}"
    elif highest < max(measured):
        words += "; larger numbers do not raise it"
    elif highest < max(estimates):
        words += "; larger numbers have no rate"
    else:
        words += ", the most that were measured: more may be faster"
    widest = max(estimates[number].half_width or 0.0 for number in (enough, highest))
    if widest > 1 - NEARLY_HIGHEST:
        return f"{words}. This is not certain: the rates have intervals of +-{percent(widest)}."
    return f"{words}."


def _counted(number: int, over: str) -> str:
    return f"1 {over.removesuffix('s')}" if number == 1 else f"{number} {over}"


def _model(sweep: Sweep) -> str:
    """Return the knee or the peak of the fitted model, or the reason why there is no model."""
    fit, over = sweep.choice.fit, sweep.over
    if fit is None:
        return f"No model: {sweep.choice.reason}."
    accuracy = f"at most {percent(fit.residual, 1)} off"
    if fit.model == KNEE:
        if fit.peak is None:
            return f"Model: no knee within the measured {over}, {accuracy}."
        return f"Model: the rate rises up to a knee at {fit.peak:.1f} {over}, {accuracy}."
    sigma, kappa = fit.parameters["sigma"], fit.parameters["kappa"]
    peak = (
        f"no peak within the measured {over}"
        if fit.peak is None
        else f"peak at {fit.peak:.1f} {over}"
    )
    parameters = f"contention {sigma:.4f}, coherency {kappa:.6f}"
    return f"Model: USL with {parameters}, {peak}, {accuracy}."
