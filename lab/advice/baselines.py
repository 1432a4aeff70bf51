"""Baselines: the sizes that people choose without advice."""

from __future__ import annotations

import math

from lab.advice.truth import Truth
from offload.bench.advice.prediction.model import Model
from offload.bench.advice.strategies import Size

USUAL_THREADS = 40  # anyio's default
ONLY_WAITS = 1000.0  # wait / CPU of a call without measured CPU time; a guess


def baselines(truth: Truth, model: Model) -> dict[str, Size]:
    """Return the sizes that people choose without a measurement.

    Gunicorn's 2n + 1 processes (its documentation); 40 threads (anyio's default); cores x (1 +
    wait / CPU) threads (Goetz 2006, Java Concurrency in Practice, 8.2), which is also the steady
    state of BetaPool (arXiv 2601.10582); and the peak of the Universal Scalability Law through
    three numbers of threads (Gunther 2007).
    """
    probe = model.probe
    ratio = probe.call.wait_s / probe.call.cpu_s if probe.call.cpu_s else ONLY_WAITS
    found = {
        "2n + 1 processes": ("prefork", 2 * probe.cores + 1),
        f"{USUAL_THREADS} threads": ("threads", USUAL_THREADS),
        "cores x (1 + wait / CPU)": ("threads", max(1, round(probe.cores * (1 + ratio)))),
    }
    if peak := _usl_peak(truth):
        found["USL of three points"] = ("threads", peak)
    return found


def _usl_peak(truth: Truth) -> int | None:
    """Return the peak of the Universal Scalability Law for the three smallest thread counts.

    N / X = (1 + sigma (N - 1) + kappa N (N - 1)) / lambda is exact for three points. Without a peak
    it is USUAL_THREADS; None if fewer than three rates of threads are known.
    """
    known = sorted((n, x) for (name, n), x in truth.rates.items() if name == "threads")[:3]
    if len(known) < 3:
        return None
    (n1, y1), (n2, y2), (n3, y3) = ((n, n / x) for n, x in known)
    slope = (y2 - y1) / (n2 - n1)
    c = ((y3 - y1) / (n3 - n1) - slope) / (n3 - n2)  # of N^2
    b = slope - c * (n1 + n2)  # of N
    a = y1 - b * n1 - c * n1 * n1
    if c <= 0 or a <= 0:
        return USUAL_THREADS
    return max(1, round(math.sqrt(a / c)))
