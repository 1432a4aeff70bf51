"""Find what limits an application, from measured figures; as sentences, notes and JSON fields.

Tables, the report on the cost of the GIL, and advice all use it. lab/advice.rst has the source of
each threshold. A cause is only found if all the figures that its rule needs are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from offload.causes import execution, failures, machine, memory, pools, victims, who
from offload.causes.execution import GIL_IMPORT
from offload.causes.figures import Figures, figures, signs_of_case
from offload.causes.gains import Gain, Switch
from offload.causes.machine import CPU_QUOTA
from offload.causes.rules import Cause, Rule
from offload.engine.record import Record, Who

NOTHING = "nothing"  # at most the CPU or the number of users limits it


def _describe_nothing(_: Cause, __: int) -> str:
    return (
        "none was found: the event loop, the threads, the GIL and the connections are not the "
        "limit, so it is the CPU or the number of users"
    )


_NOTHING = Rule(NOTHING, lambda _: Cause(NOTHING), _describe_nothing, "")
# In the order in which to fix them.
RULES = (*failures.RULES, *machine.RULES, *memory.RULES, *pools.RULES, *execution.RULES)
_BY_KIND = {rule.kind: rule for rule in (*RULES, _NOTHING)}
# Notes below a table omit them: no limit, and those that notes report for all servers.
NOT_NOTED = {NOTHING, GIL_IMPORT, CPU_QUOTA}


def diagnose(records: Sequence[Record], gains: Mapping[str, Gain] = {}) -> list[Cause]:
    """Return the causes that limit a case; empty if they are unknown, or the case has a task.

    `gains` are the measured gains of switches, by the kind of cause.
    """
    found = figures(records)
    return [] if found is None else find(found, gains)


def find(of: Figures, gains: Mapping[str, Gain] = {}) -> list[Cause]:
    """Return the causes in the order in which to fix them; [Cause(NOTHING)] if there is none.

    Empty if no cause is found, but figures that a rule needs are unknown.
    """
    found = [cause for cause in _candidates(of, gains) if not _is_unconfirmed(cause)]
    kinds = {cause.kind for cause in found if cause.gain is None or cause.gain.raises_rate}
    found = [cause for cause in found if not kinds & _BY_KIND[cause.kind].is_symptom_of]
    known = of.rate, of.alone_s, of.busy_cores, of.signs.wait_share
    if not found and (None in known or execution.is_gil_unknown(of)):
        return []
    return found or [Cause(NOTHING)]


def _candidates(of: Figures, gains: Mapping[str, Gain] = {}) -> list[Cause]:
    found = [cause for rule in RULES if (cause := rule.find(of)) is not None]
    return [replace(cause, gain=gains.get(cause.kind)) for cause in found]


def _is_unconfirmed(cause: Cause) -> bool:
    """Whether a cause is a suspicion that no measurement has confirmed."""
    has_clear_gain = cause.gain is not None and cause.gain.is_clear
    return cause.needs_gain and not has_clear_gain


def switches(records: Sequence[Record]) -> dict[str, Switch]:
    """Return what may remove the causes and suspicions of a case, by kind, the best one first."""
    found = figures(records)
    known = [] if found is None else _candidates(found)
    options = {cause.kind: _BY_KIND[cause.kind].switch(cause) for cause in known}
    return {kind: switch for kind, switch in options.items() if switch is not None}


def is_per_process(cause: Cause) -> bool:
    """Whether it limits each process, so that more processes than cores may increase the rate."""
    return _BY_KIND[cause.kind].is_per_process


def is_failure(cause: Cause) -> bool:
    """Whether requests fail or do not end because of it."""
    return any(rule.kind == cause.kind for rule in failures.RULES)


def remedy(cause: Cause) -> str:
    """Return what to do about a cause; empty if there is nothing to do."""
    return _BY_KIND[cause.kind].remedy


def clause(cause: Cause, users: int) -> str:
    """Return a cause as a clause, with its figure at this number of `users`."""
    return _BY_KIND[cause.kind].clause(cause, users)


def sentence(cause: Cause, users: int) -> str:
    """Return a cause as a sentence, with its figure and a remedy."""
    remedy = _BY_KIND[cause.kind].remedy
    if callable(remedy):
        remedy = remedy(cause)
    text = clause(cause, users) + (f"; {remedy}." if remedy else ".")
    measured = "" if cause.gain is None else f" {cause.gain.text}."
    return f"{text[0].upper()}{text[1:]}{measured}"


def note(records: Sequence[Record]) -> str | None:
    """Return the known limits of the application of a case; None if there is none."""
    causes = diagnose(records)
    noted = [clause(c, records[-1].case.users) for c in causes if c.kind not in NOT_NOTED]
    sampled = _sampled(records)
    named = {cause.line for cause in causes}
    noted += [who.clause(line) for line in (sampled.lines if sampled else ()) if line not in named]
    if (light := victims.note(records, {cause.kind for cause in causes})) is not None:
        noted.append(light)
    return "; ".join(noted) or None


def as_dict(records: Sequence[Record]) -> dict[str, object] | None:
    """Return the figures and the limits of a user's application; None for other cases."""
    signs = signs_of_case(records)
    if signs is None:
        return None
    causes = [asdict(cause) for cause in diagnose(records)]
    return {
        **asdict(signs),
        "causes": causes,
        "beside": victims.values(records),
        **who.values(_sampled(records)),
    }


def _sampled(records: Sequence[Record]) -> Who | None:
    return next((each.who for each in reversed(records) if each.who is not None), None)
