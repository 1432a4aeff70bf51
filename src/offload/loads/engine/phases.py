"""The course of a load: a warm-up that is not counted, the window, and a tail till all is known."""

from __future__ import annotations

import math
from time import process_time

from offload.loads import Load
from offload.loads.engine.clients import Clients
from offload.loads.engine.shared_state import (
    BEGAN,
    COMPLETED,
    ENDED,
    OVER,
    SETTLED,
    START,
    WARM,
    Board,
)

WARM_UP = 85.0  # s at most until every user of a warm-up has been answered
GRACE = 1.0  # s beyond one timeout after which a tail ends whatever is in flight


class Course:
    """One process's part in it; the first process, number 0, decides for all.

    Without a warm-up, cycles or completions the whole load is the window, and what is in flight at
    its end is left unfinished, as other tools do.
    """

    def __init__(self, whole: Load, board: Board, process: int) -> None:
        self.load, self.board, self.process = whole, board, process
        self.has_window = has_window(whole)
        self._before: int | None = None
        self._since: tuple[float, float] | None = None
        self._busy: float | None = None
        self._enough = max(whole.completions, math.ceil(whole.cycles * whole.users))

    def look(self, clients: Clients, now: float) -> None:
        """Post how far the clients are, and as the first process decide what follows."""
        board, leads = self.board, self.process == 0
        if not board.time(BEGAN):
            board.post(self.process, WARM, clients.is_warm() or not self.load.waits)
            if leads:
                self._warm(clients, now)
        elif not board.time(ENDED):
            if self._before is None:
                self._before = len(clients.samples.ended)
                self._since = (now, process_time())
            board.post(self.process, COMPLETED, len(clients.samples.ended) - self._before)
            if leads:
                self._measure(clients, now)
        if ended := board.time(ENDED):
            self.busy(now)
            if not self.load.refills:
                clients.ask_no_more()
            waits = self.has_window and self.load.waits
            settled = not waits or clients.is_settled(ended)
            board.post(self.process, SETTLED, settled)
            late = now > ended + self.load.timeout + GRACE
            if leads and (late or all(board.posted(SETTLED))):
                board.decide(OVER, now)
        if board.time(OVER):
            clients.stop()

    def busy(self, now: float) -> float | None:
        """Give the share of one core that this process used from the window's begin to its end."""
        if self._busy is None and self._since is not None and now > self._since[0]:
            began, cpu = self._since
            self._busy = (process_time() - cpu) / (now - began)
        return self._busy

    def _warm(self, clients: Clients, now: float) -> None:
        lasted = now - self.board.time(START)
        if not self.has_window or (self.load.rate and not self.load.warm):
            self.board.decide(BEGAN, self.board.time(START))
        elif lasted >= self.load.warm and all(self.board.posted(WARM)):
            self.board.decide(BEGAN, now)
        elif lasted > max(WARM_UP, self.load.warm):
            clients.stop(f"not all users answered in {lasted:.0f} s")

    def _measure(self, clients: Clients, now: float) -> None:
        """End the window when it is long enough.

        c cycles last c x users / rate s, and the rate is completed / length: so c x users answers.
        """
        load, length = self.load, now - self.board.time(BEGAN)
        if load.each is not None:
            if length > WARM_UP:
                clients.stop(f"not all users answered in {length:.0f} s")
        elif load.seconds is not None and length >= load.seconds:
            done = sum(self.board.posted(COMPLETED))
            if done >= self._enough or length >= load.longest:
                exactly = self.has_window and not self._enough
                self.board.decide(ENDED, now - (length - load.seconds) * exactly)


def has_window(load: Load) -> bool:
    """Say whether a load has a window of its own, with a warm-up before it or a tail behind."""
    return bool(load.rate or load.warm or load.cycles or load.completions)
