"""A barrier made of pipes: its state is integers, which other interpreters can receive."""

from __future__ import annotations

import os
import select
from dataclasses import dataclass
from threading import BrokenBarrierError

PASSED, BROKEN = b"+", b"-"


@dataclass(frozen=True)
class PipeBarrier:
    """A single-use `threading.Barrier` between interpreters of one process.

    `tokens` and `gates` are pipes (read end, write end). Every party but the last reads a token.
    """

    parties: int
    tokens: tuple[int, int]
    gates: tuple[int, int]

    @classmethod
    def create(cls, parties: int) -> PipeBarrier:
        """Create a barrier for `parties` workers."""
        tokens, gates = os.pipe(), os.pipe()
        os.set_blocking(tokens[0], False)
        os.write(tokens[1], PASSED * (parties - 1))
        return cls(parties, tokens, gates)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for all parties; raise BrokenBarrierError after `timeout` s or an abort."""
        try:
            os.read(self.tokens[0], 1)
        except BlockingIOError:  # the last party
            os.write(self.gates[1], PASSED * (self.parties - 1))
            return 0
        if not select.select([self.gates[0]], [], [], timeout)[0]:
            raise BrokenBarrierError
        if os.read(self.gates[0], 1) != PASSED:
            raise BrokenBarrierError
        return 1

    def abort(self) -> None:
        """Release all parties with an error."""
        os.write(self.gates[1], BROKEN * self.parties)
