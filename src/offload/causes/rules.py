"""What a cause is, and a rule: how it is found, in which words it is reported, and its remedy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from offload.causes.figures import Figures
from offload.causes.gains import CLEAR_RATIO, Gain, Switch
from offload.engine.application import HotLine


@dataclass(frozen=True)
class Cause:
    """A cause with the figure by which it was found, and the threshold of this figure.

    The unit of `value` and `threshold` depends on the kind, see its rule. `route` is the route that
    blocks the loop; None if another task does, in which case `value` is the 99th percentile of the
    loop's lag. `module` is the module that switched the GIL on. `limit` is the number of threads,
    or about how many requests the unknown resource handles at once. `gil_s` is the time for which a
    request holds the GIL. `line` is the line that blocks the loop, or at which threads wait, if the
    stacks of the server were sampled. `facts` is what else the rule found: a part of the records,
    or a dataclass of its chapter. `gain` is what its remedy changed, if that was measured. A cause
    that `needs_gain` is only a suspicion until the gain is clear.
    """

    kind: str
    value: float | None = None
    threshold: float | None = None
    route: str | None = None
    module: str | None = None
    limit: int | None = None
    gil_s: float | None = None
    line: HotLine | None = None
    facts: object | None = None
    gain: Gain | None = None
    needs_gain: bool = False


def may_explain(cause: Cause, _: str = "") -> bool:
    """Whether a cause may explain others: not if the rate was the same without it."""
    gain = cause.gain
    return gain is None or not gain.is_judged or gain.ratio >= CLEAR_RATIO


def _has_no_switch(_: Cause) -> Switch | None:
    return None


@dataclass(frozen=True)
class Rule:
    """One kind of cause: everything that is known of it stands here.

    `find` returns the cause; None if the application does not have it, or if a figure that it needs
    is unknown. `clause` returns the cause in words, with its figure, at a number of users;
    `remedy` is what to do, or returns that. `is_failure`: requests fail or do not end because of
    it. `is_per_process`: more processes than cores may increase the rate. `is_symptom_of` are kinds
    of causes which, if found, explain this one; `explains` returns whether a cause of this kind
    explains one of another kind. `switch` returns what may remove the cause: advise
    measures that. `is_proven_by_gain` returns whether it is not the cause if that gains nothing.
    """

    kind: str
    find: Callable[[Figures], Cause | None]
    clause: Callable[[Cause, int], str]
    remedy: str | Callable[[Cause], str]
    is_failure: bool = False
    is_per_process: bool = False
    is_symptom_of: frozenset[str] = frozenset()
    explains: Callable[[Cause, str], bool] = may_explain
    switch: Callable[[Cause], Switch | None] = _has_no_switch
    is_proven_by_gain: Callable[[Cause], bool] = lambda _: False
