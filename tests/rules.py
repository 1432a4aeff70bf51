"""Plans with another stopping rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from offload.engine.plan import Plan


def with_rule(plan: Plan, **values: Any) -> Plan:
    """Return a plan whose rule has other values."""
    return replace(plan, rule=replace(plan.rule, **values))
