"""The phases of a load: a warm-up that is not counted, the window, and a tail.

In the tail the requests that were in flight at the end of the window end.
"""

from __future__ import annotations

from time import process_time

from offload.loads import Load
from offload.loads.engine.connections.clients import Clients
from offload.loads.engine.shared_state import (
    AGREED_END,
    AGREED_START,
    COMPLETED,
    LOAD_END,
    LOAD_START,
    SETTLED,
    WARM,
    WINDOW_END,
    WINDOW_START,
    SharedState,
)

WARM_UP = 85.0  # maximum time in s until every user has had a response
GRACE = 1.0  # s: the tail ends at the latest one timeout and GRACE after the window


class LoadPhases:
    """The phases in one load process; process 0 decides for all when a phase ends.

    Without a warm-up, cycles or completions the whole load is the window, and requests in flight
    at its end count as unfinished, as in other tools.
    """

    def __init__(self, whole: Load, state: SharedState, process: int) -> None:
        self.load, self.state, self.process = whole, state, process
        self._before: int | None = None
        self._since: tuple[float, float] | None = None
        self._busy: float | None = None
        self._wanted = whole.window.responses(whole.users)

    def update(self, clients: Clients, now: float) -> None:
        """Publish the progress of the clients; process 0 also starts the next phase."""
        state, is_leader = self.state, self.process == 0
        if not state.time(WINDOW_START):
            state.post(self.process, WARM, clients.is_warm() or not self.load.window.waits)
            if is_leader:
                self._end_warmup(clients, now)
        elif not state.time(WINDOW_END):
            if self._before is None:
                self._before = len(clients.samples.ended)
                self._since = (now, process_time())
            state.post(self.process, COMPLETED, len(clients.samples.ended) - self._before)
            if is_leader:
                self._end_window(clients, now)
        if ended := state.time(WINDOW_END):
            self.busy(now)
            if not self.load.window.refills:
                clients.stop_sending()
            state.post(self.process, SETTLED, self._is_settled(clients, ended, now))
            late = now > ended + self.load.timeout + GRACE
            if is_leader and (late or all(state.values(SETTLED))):
                state.decide(LOAD_END, now)
        if state.time(LOAD_END):
            clients.stop()

    def _is_settled(self, clients: Clients, ended: float, now: float) -> bool:
        """Whether the load may end now, after a window that ended at `ended`."""
        has_tail = self.load.has_window and self.load.window.waits
        return not has_tail or clients.is_settled(ended)

    def busy(self, now: float) -> float | None:
        """Return the share of one core that this process used within the window."""
        if self._busy is None and self._since is not None and now > self._since[0]:
            started, cpu = self._since
            self._busy = (process_time() - cpu) / (now - started)
        return self._busy

    def _end_warmup(self, clients: Clients, now: float) -> None:
        lasted = now - self.state.time(LOAD_START)
        if not self.load.has_window or (self.load.arrivals and not self.load.window.warm):
            self.state.decide(WINDOW_START, self.state.time(LOAD_START))
        elif lasted >= self.load.window.warm and all(self.state.values(WARM)):
            self.state.decide(WINDOW_START, now)
        elif lasted > max(WARM_UP, self.load.window.warm):
            clients.stop(f"not all users had a response within {lasted:.0f} s")

    def _end_window(self, clients: Clients, now: float) -> None:
        """End the window when it has enough seconds and responses, or its maximum length."""
        load, length = self.load, now - self.state.time(WINDOW_START)
        if load.each is not None:
            if length > WARM_UP:
                clients.stop(f"not all users had a response within {length:.0f} s")
        elif load.seconds is not None and length >= load.seconds:
            done = sum(self.state.values(COMPLETED))
            if done >= self._wanted or length >= load.window.longest:
                exactly = self.load.has_window and not self._wanted
                self.state.decide(WINDOW_END, now - (length - load.seconds) * exactly)


class AgreedPhases(LoadPhases):
    """The phases on one of several hosts: they have agreed on the window.

    After the window the load goes on until every request has a response, so that the server's count
    can be compared. An open loop stops sending when the requests of the window have a response.
    """

    def _is_settled(self, clients: Clients, ended: float, now: float) -> bool:
        if clients.is_settled(ended):
            clients.stop_sending()
        return clients.is_settled(now)

    def _end_warmup(self, clients: Clients, now: float) -> None:
        if now >= (agreed := self.state.agreed(AGREED_START)):
            self.state.decide(WINDOW_START, agreed)

    def _end_window(self, clients: Clients, now: float) -> None:
        if now >= (agreed := self.state.agreed(AGREED_END)):
            self.state.decide(WINDOW_END, agreed)
