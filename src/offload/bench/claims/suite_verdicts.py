"""The claims of a suite, evaluated by the records of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from offload.bench.claims import audit, availability, evaluate
from offload.bench.claims.evaluate import ClaimVerdict
from offload.engine.record import Record
from offload.suites import _module

KINDS = ("CLAIMS", "AVAILABILITIES", "AUDITS")


def evaluate_suite(
    suite: str, records: Sequence[Record] | None, run: str | None = None
) -> list[ClaimVerdict]:
    """Evaluate a suite's audits, and its claims by the records of one run (None: no run)."""
    cases = items(suite, "CASES")
    found = [evaluate.evaluate_claim(suite, one, records, cases) for one in items(suite, "CLAIMS")]
    found += [
        availability.evaluate_availability(suite, one, records)
        for one in items(suite, "AVAILABILITIES")
    ]
    found = [replace(one, run=run) for one in found]
    return found + [audit.audit_figures(suite, one) for one in items(suite, "AUDITS")]


def published_claims(suites: Sequence[str]) -> list[tuple[str, Any]]:
    """Return all published claims, each with its suite."""
    return [(suite, one) for suite in suites for kind in KINDS for one in items(suite, kind)]


def items(suite: str, what: str) -> Sequence[Any]:
    """Return a suite's CASES or one of KINDS; empty if it has none."""
    found: Sequence[Any] = getattr(_module.load(suite), what, ())
    return found
