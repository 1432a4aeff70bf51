"""The processes of one load: they share its phases, and each runs its clients in an event loop.

A load has a warm-up that is not counted, a window, and a tail, in which the requests that were in
flight at the end of the window end. Process 0 decides these phases, unless several hosts send the
load: then the hosts have agreed on the start and on the window, and each has its own shared state.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic, process_time
from typing import TYPE_CHECKING

from offload import prctl
from offload.loads._load import Load
from offload.loads.engine.connections import Clients
from offload.loads.engine.figures import Clock, CountedTime, Samples
from offload.loads.engine.loops import ClosedLoop, OpenLoop
from offload.units import counted

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess


@dataclass(frozen=True)
class LoadProcesses:
    """The running processes of a load, and the pipes by which they send their samples."""

    children: Sequence[ForkProcess]
    pipes: Sequence[Connection]
    state: SharedState

    def samples(self) -> list[Samples]:
        """Wait for the end of all processes; return the samples of each."""
        found = _receive(self.pipes, self.state)
        for child in self.children:
            child.join()
        return found


def run_processes(load: Load, state: SharedState) -> list[Samples]:
    """Run a load in several processes; return the samples of each."""
    return start_processes(load, state).samples()


def start_processes(load: Load, state: SharedState) -> LoadProcesses:
    """Start the processes of a load, or on one of several hosts those of this host."""
    import multiprocessing  # takes a tenth of the start time

    parts = divide(load)[state.first : state.first + state.processes]
    # Fork, because the state is shared memory. It is safe: no event loop or thread runs yet.
    context = multiprocessing.get_context("fork")
    pipes, children = [], []
    try:
        for process, part in enumerate(parts):
            reading, writing = context.Pipe(duplex=False)
            child = context.Process(
                target=_child, args=(part, load, state, process, writing, os.getpid())
            )
            child.start()
            writing.close()
            pipes.append(reading)
            children.append(child)
    except OSError:  # a limit, for example of processes: the others would wait for this one
        state.decide(LOAD_END, monotonic())
        raise
    return LoadProcesses(children, pipes, state)


def divide(load: Load) -> list[Load]:
    """Divide a load's users and requests; the parts add up to the whole."""
    count = load.processes
    return [
        replace(
            load,
            users=_share(load.users, count, process),
            requests=None if load.requests is None else _share(load.requests, count, process),
            seed=load.seed * count + process,
        )
        for process in range(count)
    ]


def _share(amount: int, count: int, process: int) -> int:
    return amount // count + (process < amount % count)


def _child(
    part: Load, whole: Load, state: SharedState, process: int, pipe: Connection, parent: int
) -> None:
    prctl.end_with(parent)  # even if it is killed by SIGKILL
    pipe.send(work(part, whole, state, process))  # arrays are pickled as bytes


def _receive(pipes: Sequence[Connection], state: SharedState) -> list[Samples]:
    """Receive the samples of each process; if a process died, report it and end the others."""
    from multiprocessing.connection import Connection, wait

    samples: dict[Connection, Samples] = {}
    while len(samples) < len(pipes):
        for pipe in wait(pipe for pipe in pipes if pipe not in samples):
            assert isinstance(pipe, Connection)
            try:
                samples[pipe] = pipe.recv()
            except (EOFError, OSError):  # OSError: it died while it sent its samples
                state.decide(LOAD_END, monotonic())
                samples[pipe] = Samples(problem=f"load process {pipes.index(pipe) + 1} died")
    return [samples[pipe] for pipe in pipes]


# One process

TICK = 0.005  # s between two updates of the phases
SWEEP = 0.1  # s between two checks for timed-out requests


def work(load: Load, whole: Load, state: SharedState, process: int) -> Samples:
    """Run `load`, the part of this process in the `whole` load, and return its samples."""
    loop = None
    with contextlib.suppress(ImportError):
        import uvloop

        loop = uvloop.new_event_loop
    number = state.first + process
    clients = OpenLoop(load, whole, number) if whole.arrivals else ClosedLoop(load)
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(_work(clients, whole, state, process))
    return clients.samples


async def _work(clients: Clients, whole: Load, state: SharedState, process: int) -> None:
    # Return None: asyncio's Runner would format a result, 0.25 s for 150,000 samples.
    clients.loop = asyncio.get_running_loop()
    phases = (AgreedPhases if state.is_agreed else LoadPhases)(whole, state, process)
    state.post(process, READY, 1)
    while not state.time(LOAD_START) and not state.time(LOAD_END):
        if process == 0 and not state.is_agreed and all(state.values(READY)):
            state.decide(LOAD_START, monotonic())
        else:
            await asyncio.sleep(TICK)
    if not state.time(LOAD_START):  # another process has ended the load before its start
        return
    if state.is_agreed:
        await asyncio.sleep(max(0.0, state.time(LOAD_START) - monotonic()))
        clients.start(state.time(LOAD_START))
    else:
        clients.start(monotonic())
    last_sweep = monotonic()
    while not clients.stopped:
        now = monotonic()
        phases.update(clients, now)
        if now - last_sweep >= SWEEP:
            clients.sweep(now)
            last_sweep = now
        await clients.wait(TICK)
    clients.samples.busy = phases.busy(monotonic())
    if clients.samples.problem is not None:
        state.decide(LOAD_END, monotonic())


# Its phases
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
        self._stall: StallDetector | None = None

    def update(self, clients: Clients, now: float) -> None:
        """Publish the progress of the clients; process 0 also starts the next phase."""
        state, is_leader = self.state, self.process == 0
        if self.load.window.patience is not None and not state.time(WINDOW_END):
            state.post(self.process, SUCCEEDED, len(clients.samples.ended))
            if is_leader:
                self._detect_stall(clients, now)
        if not state.time(WINDOW_START):
            state.post(self.process, WARM, clients.is_warm() or self._has_waited(now))
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
            longest = self.load.window.waits_s
            late = now > ended + (self.load.timeout + GRACE if longest is None else longest)
            if is_leader and (late or all(state.values(SETTLED))):
                state.decide(LOAD_END, now)
        if state.time(LOAD_END):
            clients.stop()

    def _has_waited(self, now: float) -> bool:
        """Whether the warm-up has waited for users as long as it may."""
        window = self.load.window
        most_s = math.inf if window.waits_s is None else window.warm + window.waits_s
        return now - self.state.time(LOAD_START) >= most_s

    def _is_settled(self, clients: Clients, ended: float, now: float) -> bool:
        """Whether the load may end now, after a window that ended at `ended`."""
        has_tail = self.load.has_window and self.load.window.waits_s != 0
        return not has_tail or clients.is_settled(ended)

    def busy(self, now: float) -> float | None:
        """Return the share of one core that this process used within the window."""
        if self._busy is None and self._since is not None and now > self._since[0]:
            started, cpu = self._since
            self._busy = (process_time() - cpu) / (now - started)
        return self._busy

    def _detect_stall(self, clients: Clients, now: float) -> None:
        if self._stall is None:
            patience = self.load.window.patience or 0.0
            self._stall = StallDetector(patience, self.state.time(LOAD_START))
        problem = self._stall.update(int(sum(self.state.values(SUCCEEDED))), now)
        if problem is not None:
            clients.samples.is_stalled = True
            clients.stop(problem)

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


SLICE = 2.0  # s, of a load whose requests are shorter; a guess
CYCLES = 3.0  # slices and silences last as many times the first response: users respond in bursts
EXPECTED = 20  # successes in a slice, from which a fall is not chance
FALL = 0.5  # share of the best slice; in two slices, because other programs may disturb one


class StallDetector:
    """Whether requests no longer succeed, or ever fewer, since a load `started`."""

    def __init__(self, patience: float, started: float) -> None:
        self._patience, self._slice = patience, SLICE
        self._started = self._last = self._slice_start = started
        self._count = self._slice_count = 0
        self._slices: list[int] = []

    def update(self, count: int, now: float) -> str | None:
        """Note the number of successes so far; return what is wrong, or None."""
        if count > self._count:
            if not self._count:
                self._slice = max(SLICE, CYCLES * (now - self._started))
                self._patience = max(self._patience, self._slice)
            self._count, self._last = count, now
        if now - self._last >= self._patience:
            after = f"after {counted(count, 'success')} " if count else ""
            return f"{after}no request succeeded for {now - self._last:.0f} s"
        if now - self._slice_start >= self._slice:
            self._slices.append(count - self._slice_count)
            self._slice_start, self._slice_count = now, count
            return self._fall()
        return None

    def _fall(self) -> str | None:
        best, last = max(self._slices[:-2], default=0), self._slices[-2:]
        if best < EXPECTED or max(last) > FALL * best:
            return None
        seen = ", ".join(map(str, self._slices))
        return f"ever fewer requests succeeded: {seen} in {self._slice:.3g} s each"


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


def counted_time(load: Load, state: SharedState, parts: Sequence[Samples]) -> CountedTime:
    """Return the window of a load, or the whole load if it has no window or ended early."""
    started, ended = state.time(WINDOW_START), state.time(WINDOW_END)
    if load.has_window and ended:
        return CountedTime(started, ended, is_own=True)
    over = ended or max(part.over for part in parts)
    return CountedTime(started or state.time(LOAD_START), over, is_own=False)


# What the processes share: numbers in shared memory
LOAD_START, WINDOW_START, WINDOW_END, LOAD_END = range(4)  # times, set once; 0 until then
READY, WARM, COMPLETED, SETTLED, SUCCEEDED = range(4, 9)  # values that each process publishes
VALUES = 5
AGREED_START, AGREED_END = range(2)  # of the window, behind these values


@dataclass(frozen=True)
class AgreedTimes:
    """When all hosts start a load, and the window that they count, in s of one clock.

    `window_ended` is None for a load with a number of requests: its window is the whole load.
    """

    start: float
    window_started: float
    window_ended: float | None

    def on(self, clock: Clock) -> AgreedTimes:
        """Return the same times, converted from the reference clock to `clock`."""
        ended = None if self.window_ended is None else clock.own(self.window_ended)
        return AgreedTimes(clock.own(self.start), clock.own(self.window_started), ended)


class SharedState:
    """State shared with forked children. Process 0 decides the times of the phases for all.

    Other processes may read these times late, because every request is recorded with its own times.

    With `first` the load is sent by several hosts, which start at an agreed time: `first` is the
    number of the first process of this host among the processes of all hosts.
    """

    def __init__(self, processes: int, first: int | None = None) -> None:
        self.processes = processes
        self.first = first or 0
        self.is_agreed = first is not None
        self._agreed = 4 + VALUES * processes
        self._numbers = memoryview(mmap.mmap(-1, 8 * (self._agreed + 2))).cast("d")

    def time(self, what: int) -> float:
        """Return a time, or 0 if it is not decided yet."""
        return self._numbers[what]

    def decide(self, what: int, now: float) -> None:
        """Set a time; only the first call for it has an effect."""
        self._numbers[what] = self._numbers[what] or now

    def post(self, process: int, what: int, value: float) -> None:
        """Publish a value of one process."""
        self._numbers[VALUES * process + what] = value

    def values(self, what: int) -> list[float]:
        """Return the published value of every process."""
        return list(self._numbers[what::VALUES][: self.processes])

    def agree(self, times: AgreedTimes) -> None:
        """Set the agreed times; the start last, because the processes wait for it."""
        ended = math.inf if times.window_ended is None else times.window_ended
        self._numbers[self._agreed + AGREED_START] = times.window_started
        self._numbers[self._agreed + AGREED_END] = ended
        self.decide(LOAD_START, times.start)

    def agreed(self, what: int) -> float:
        """Return an agreed time; infinity if the window has no agreed end."""
        return self._numbers[self._agreed + what]
