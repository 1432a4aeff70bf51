"""Remedies that can be measured: what switches a cause off, and what that gains."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from offload.engine.intervals import geometric_mean_ratio
from offload.engine.record import Record, pairs_by_round

# From these on, a gain is worth a change, if it is certain; guesses.
CLEAR_RATIO = 1.1  # times the rate
CLEAR_SHARE, CLEAR_MIB = 0.15, 16.0  # of the memory


@dataclass(frozen=True)
class Switch:
    """What may remove a cause without a change of the application: then it can be measured.

    These are environment `variables` of the server's processes, `settings` of our server, or
    whether its clients keep their connections. `how` names it; None: by its variables and settings.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    keep_alive: bool | None = None
    how: str | None = None

    @property
    def text(self) -> str:
        """The switch in words: MALLOC_ARENA_MAX=2."""
        kept = {} if self.keep_alive is None else {"keep_alive": "yes" if self.keep_alive else "no"}
        known = {**self.variables, **self.settings, **kept}
        return self.how or " ".join(f"{name}={value}" for name, value in known.items())


@dataclass(frozen=True)
class Gain:
    """What a remedy changed when it was measured: side by side, in rounds with new servers.

    `how` is the switch in words. `ratio` is the rate with it over that without it, with its 95 %
    interval from `low` to `high`, which is unknown after one round. `memory_mib` is the memory of
    the server after the load without it, `saved_mib` what it saved, and `saved_low_mib` the lower
    end of the 95 % interval; None is unknown.
    """

    how: str
    ratio: float
    low: float | None
    high: float | None
    memory_mib: float | None = None
    saved_mib: float | None = None
    saved_low_mib: float | None = None

    @property
    def saves_memory(self) -> bool:
        """Whether it certainly saves a considerable part of the memory."""
        least = max(CLEAR_MIB, CLEAR_SHARE * (self.memory_mib or 0.0))
        is_certain = self.saved_low_mib is not None and self.saved_low_mib > 0
        return is_certain and (self.saved_mib or 0.0) >= least

    @property
    def is_clear(self) -> bool:
        """Whether it certainly raises the rate, or saves memory, considerably."""
        return self.raises_rate or self.saves_memory

    @property
    def is_refuted(self) -> bool:
        """Whether it was measured in several rounds, and gained nothing considerable."""
        return self.is_judged and not self.is_clear and self.ratio < CLEAR_RATIO

    @property
    def is_judged(self) -> bool:
        """Whether there were enough rounds to know whether it is clear."""
        return self.low is not None

    @property
    def raises_rate(self) -> bool:
        """Whether it certainly raises the rate considerably."""
        return self.low is not None and self.low > 1 and self.ratio >= CLEAR_RATIO

    @property
    def text(self) -> str:
        """The gain in words."""
        how_sure = "1 round" if self.low is None else f"{self.low:.3g} to {self.high:.3g}"
        rate = f"{self.ratio:.3g} times the rate ({how_sure})"
        saved = f", {self.saved_mib:.0f} MiB less" if self.saves_memory else ""
        return f"Measured with {self.how}: {rate}{saved}"


def estimate_gain(how: str, plain: Sequence[Record], switched: Sequence[Record]) -> Gain | None:
    """Return the gain of a switch from the windows without and with it, in the same rounds.

    None if it is unknown: there is no round in which both have a rate.
    """
    rates = pairs_by_round(plain, switched, lambda each: each.result.rate)
    if not rates:
        return None
    ratio = geometric_mean_ratio(rates)
    if ratio is None:
        ((before, after),) = rates
        return Gain(how, after / before, None, None)
    pairs = pairs_by_round(plain, switched, lambda each: each.resources.memory.after_mib)
    share = geometric_mean_ratio(pairs)
    if share is None:
        return Gain(how, *ratio)
    memory_mib = statistics.fmean(before for before, _ in pairs)
    saved_mib = memory_mib - statistics.fmean(after for _, after in pairs)
    return Gain(how, *ratio, memory_mib, saved_mib, memory_mib * (1 - share[2]))
