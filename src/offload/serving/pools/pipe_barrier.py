"""A barrier made of pipes: it crosses interpreters, for all that it consists of are numbers."""

from __future__ import annotations

import os
import select
from dataclasses import dataclass
from threading import BrokenBarrierError

PASSED, BROKEN = b"+", b"-"


@dataclass(frozen=True)
class PipeBarrier:
    """What `threading.Barrier` is, between interpreters of one process; it serves once.

    `tokens` and `gates` are the two ends of a pipe each. All but the last find a token.
    """

    parties: int
    tokens: tuple[int, int]
    gates: tuple[int, int]

    @classmethod
    def of(cls, parties: int) -> PipeBarrier:
        """Make one for so many that meet."""
        tokens, gates = os.pipe(), os.pipe()
        os.set_blocking(tokens[0], False)
        os.write(tokens[1], PASSED * (parties - 1))
        return cls(parties, tokens, gates)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until all have come; raise BrokenBarrierError after the time, or an abort."""
        try:
            os.read(self.tokens[0], 1)
        except BlockingIOError:  # the last one
            os.write(self.gates[1], PASSED * (self.parties - 1))
            return 0
        if not select.select([self.gates[0]], [], [], timeout)[0]:
            raise BrokenBarrierError
        if os.read(self.gates[0], 1) != PASSED:
            raise BrokenBarrierError
        return 1

    def abort(self) -> None:
        """Let all go on by an error."""
        os.write(self.gates[1], BROKEN * self.parties)
