"""Find what limits an application, from measured figures; as sentences, notes and JSON fields.

Tables, the report on the cost of the GIL, and advice all use it. lab/advice.rst has the source of
each threshold. A cause is only found if all the figures that its rule needs are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from offload.causes import (
    calls,
    ceiling,
    execution,
    failures,
    hangs,
    machine,
    memory,
    pools,
    processes,
    victims,
    who,
)
from offload.causes.ceiling import Ceiling
from offload.causes.execution import GIL_IMPORT
from offload.causes.figures import Figures, figures, signs_of_case
from offload.causes.gains import Gain, Switch
from offload.causes.machine import CLIENT_PORTS, CPU_QUOTA, LISTEN_QUEUE
from offload.causes.pools import SharedByProcesses
from offload.causes.rules import Cause, Rule
from offload.engine.application import Who
from offload.engine.figures import MAX_OTHERS
from offload.engine.record import Record
from offload.units import counted, number, percent

NOTHING = "nothing"  # at most the CPU, the users or the workers limit it
UNEXPLAINED = "unexplained"  # a part of the rate is missing, and no rule says why
CLEARLY = 0.7  # share of the rate that must be reached, however wide its interval is; a guess
NEAR = 0.15  # share of the rate that may be missing: the error of both sides, see lab/advice.rst
BY = {
    ceiling.USERS: "the {users} allow",
    ceiling.WORKERS: "the {workers} of the server allow: more of them may carry more",
    ceiling.CPU: "the CPU allows",
    ceiling.LOAD_TOOL: "the load tool can send",
}


def find_last_word(of: Figures) -> Cause | None:
    """Compare the rate with what CPU, users and workers allow, if no rule applies.

    The value of UNEXPLAINED is the share of the allowed rate that is missing. None if it is unknown
    what they allow, as requests alone differ too much, or if other programs may be the reason.
    """
    found = of.ceiling
    if found is None:
        return None
    least = 1 - NEAR
    if found.reached_high >= least:
        # Then other programs leave so little CPU that this proves nothing.
        is_unknown = found.others > MAX_OTHERS or found.reached < CLEARLY
        return None if is_unknown else Cause(NOTHING, found.reached, least, facts=found)
    if found.reached_high >= least * (1 - found.others):
        return None
    return Cause(UNEXPLAINED, 1 - found.reached, NEAR, facts=found)


def _describe_nothing(cause: Cause, users: int) -> str:
    found = cause.facts
    if not isinstance(found, Ceiling):
        return "nothing is wrong"
    workers = counted(found.workers or 0, "worker")
    by = BY[found.by].format(users=counted(users, "user"), workers=workers)
    share = percent(min(1.0, found.reached))
    return f"nothing is wrong: {number(found.reached * found.rate)}/s are {share} of what {by}"


def _describe_unexplained(cause: Cause, _: int) -> str:
    text, found = f"{percent(cause.value or 0.0)} of the rate is unexplained", cause.facts
    if not isinstance(found, Ceiling):
        return text
    measured = number(found.reached * found.rate)
    return f"{text}: CPU, users and workers allow {number(found.rate)}/s, and it is {measured}/s"


LAST_WORDS = (
    Rule(NOTHING, find_last_word, _describe_nothing, ""),
    Rule(
        UNEXPLAINED,
        find_last_word,
        _describe_unexplained,
        "find where requests wait: a lock, a disk, or an upstream that slows down under load",
    ),
)
# In the order in which to fix them.
RULES = (
    *hangs.RULES,
    *failures.RULES,
    *machine.RULES,
    *memory.RULES,
    *calls.RULES,
    *pools.RULES,
    *processes.RULES,
    *execution.RULES,
)
_BY_KIND = {rule.kind: rule for rule in (*RULES, *LAST_WORDS)}
# Notes below a table omit them: no limit, and those that notes report for all servers.
NOT_NOTED = {NOTHING, GIL_IMPORT, CPU_QUOTA, LISTEN_QUEUE, CLIENT_PORTS}


def diagnose(
    records: Sequence[Record], gains: Mapping[str, Gain] = {}, known: Sequence[Cause] = ()
) -> list[Cause]:
    """Return the causes that limit a case; empty if they are unknown, or the case has a task.

    `gains` are the measured gains of switches, by the kind of cause. Causes that are `known` from
    elsewhere, such as the import, come last: they limit no rate.
    """
    figured = figures(records)
    found = [] if figured is None else find(figured, gains)
    return [*(each for each in found if not known or each.kind != NOTHING), *known]


def find(of: Figures, gains: Mapping[str, Gain] = {}) -> list[Cause]:
    """Return the causes in the order in which to fix them, those whose remedy gains nothing last.

    If no rule applies, the only one is NOTHING. The last is UNEXPLAINED if the rate is lower than
    it could be, and nothing limits it. Neither is known if figures that a rule needs are not.
    """
    found = [cause for cause in _candidates(of, gains) if not _is_unconfirmed(cause)]
    found = [cause for cause in found if not _is_symptom(cause, found)]
    found.sort(key=_is_last)
    known = of.rate, of.alone_s, of.busy_cores, of.signs.wait_share
    is_limited = any(
        cause.kind != failures.REQUESTS_FAIL and not memory.is_kept(cause) for cause in found
    )
    if is_limited or None in known or execution.is_gil_unknown(of):
        return found
    last = find_last_word(of)
    if last is None or (last.kind == NOTHING and found):
        return found  # such as requests that fail, which do not limit the rate
    return [*found, last]


def _is_last(cause: Cause) -> bool:
    """Whether its remedy gains nothing, or it makes nothing slower."""
    gain = cause.gain
    is_refuted = gain is not None and gain.is_refuted
    return is_refuted or (memory.is_kept(cause) and (gain is None or not gain.is_clear))


def _is_symptom(cause: Cause, found: Sequence[Cause]) -> bool:
    kinds = _BY_KIND[cause.kind].is_symptom_of
    known = (each for each in found if each.kind in kinds)
    return any(_BY_KIND[each.kind].explains(each, cause.kind) for each in known)


def _candidates(of: Figures, gains: Mapping[str, Gain] = {}) -> list[Cause]:
    found = [cause for rule in RULES if (cause := rule.find(of)) is not None]
    return [replace(cause, gain=gains.get(cause.kind)) for cause in found]


def _is_unconfirmed(cause: Cause) -> bool:
    """Whether no measurement has confirmed a suspicion, or one has refuted the cause."""
    gain = cause.gain
    if cause.needs_gain:
        return gain is None or not gain.is_clear
    return gain is not None and gain.is_refuted and _BY_KIND[cause.kind].is_proven_by_gain(cause)


def switches(records: Sequence[Record]) -> dict[str, Switch]:
    """Return what may remove the causes and suspicions of a case, by kind, the best one first.

    A symptom of a cause that needs no measured gain is left out.
    """
    found = figures(records)
    every = [] if found is None else _candidates(found)
    certain = [cause for cause in every if not cause.needs_gain]
    known = [cause for cause in every if not _is_symptom(cause, certain)]
    options = {cause.kind: _BY_KIND[cause.kind].switch(cause) for cause in known}
    return {kind: switch for kind, switch in options.items() if switch is not None}


def is_per_process(cause: Cause) -> bool:
    """Whether it limits each process, so that more processes than cores may increase the rate."""
    return _BY_KIND[cause.kind].is_per_process and not isinstance(cause.facts, SharedByProcesses)


def explain(records: Sequence[Record], problem: str) -> str:
    """Return why a case has no figures: its problem, and what made requests fail, with a remedy."""
    found = [cause for cause in diagnose(records) if is_failure(cause)]
    if not found:
        return problem
    users = records[-1].case.users
    return f"{problem}: {clause(found[0], users)}; {remedy(found[0])}"


def is_failure(cause: Cause) -> bool:
    """Whether requests fail or do not end because of it."""
    return _BY_KIND[cause.kind].is_failure


def remedy(cause: Cause) -> str:
    """Return what to do about a cause; empty if there is nothing to do."""
    found = _BY_KIND[cause.kind].remedy
    return found(cause) if callable(found) else found


def clause(cause: Cause, users: int) -> str:
    """Return a cause as a clause, with its figure at this number of `users`."""
    return _BY_KIND[cause.kind].clause(cause, users)


def sentence(cause: Cause, users: int) -> str:
    """Return a cause as a sentence, with its figure and a remedy."""
    what_to_do = remedy(cause)
    text = clause(cause, users) + (f"; {what_to_do}." if what_to_do else ".")
    measured = "" if cause.gain is None else f" {cause.gain.text}."
    return f"{who.capitalized(text, cause.line)}{measured}"


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
