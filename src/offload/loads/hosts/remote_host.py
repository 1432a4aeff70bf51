"""A host of a load, seen from the machine that measures: the steps of its agent, and its clock."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any, Protocol

from offload import __version__, resource_limits
from offload.errors import MachineError
from offload.loads._load import Load
from offload.loads.engine.figures import Clock, Samples
from offload.loads.engine.processes import AgreedTimes
from offload.loads.hosts import protocol
from offload.loads.hosts.agent import PROTOCOL
from offload.loads.hosts.protocol import BadFrameError, Frame, FrameReader

STEP_S = 30.0  # for each step before the load: the start of Python on a slow host
PING_S = 1.0  # between two heartbeats (PING) during the load
SILENCE_S = 10.0  # without a frame, a host is regarded as lost
LATEST_S = 1e10  # s of a monotonic clock
MOST_BYTES = 1 << 32  # of samples: 130 million requests
INSTALL = "install this version there, so that `ssh {host} offload --version` prints it"


class LostHostError(Exception):
    """A host failed, died or does not respond; the message is the reason."""


class Channel(Protocol):
    """The stream to an agent; errors are OSErrors, and a TimeoutError can be retried."""

    def send(self, data: bytes) -> None: ...

    def receive(self, timeout_s: float) -> bytes: ...

    def exit_report(self) -> tuple[int | None, str]: ...

    def close(self) -> None: ...


class RemoteHost:
    """One host. A step that fails raises LostHostError, or MachineError if the user can fix it."""

    def __init__(self, name: str, channel: Channel) -> None:
        self.name = name
        self.facts: Mapping[str, Any] = {}
        self._channel = channel
        self._frames = FrameReader(channel.receive)

    def read_facts(self) -> None:
        """Wait for the agent's facts, and check its version."""
        until = monotonic() + STEP_S
        try:
            has_started = self._frames.skip_preamble(STEP_S) is not None
        except TimeoutError:
            what = f"host {self.name}: offload did not start within {STEP_S:.0f} s"
            raise MachineError(what, INSTALL.format(host=self.name)) from None
        except OSError as error:
            raise LostHostError(f"the connection failed ({error})") from None
        if not has_started:
            raise self._missing()
        frame = self._await(protocol.HELLO, until)
        self.facts = _json(frame.content)
        version = self.fact("version")
        if self.facts.get("protocol") != PROTOCOL or version != __version__:
            what = f"host {self.name} has offload {version}, this is {__version__}"
            raise MachineError(what, INSTALL.format(host=self.name))

    def fact(self, name: str) -> str:
        """Return a fact of the host as short printable text."""
        return _text(str(self.facts.get(name)).encode(errors="replace"))[:80]

    def check_users(self, users: int) -> None:
        """Raise MachineError if the host allows fewer open files than its users need."""
        limit = self.facts.get("files")
        if isinstance(limit, int) and users + resource_limits.SPARE_DESCRIPTORS > limit:
            what = f"host {self.name}: {users} users need more than {limit} descriptors"
            raise MachineError(what, "raise ulimit -n there, or use more hosts")

    def measure_clock(self) -> ClockOffset:
        """Measure the offset of its clock by some round trips."""
        until = monotonic() + STEP_S
        return estimate_offset(self._exchange(until) for _ in range(EXCHANGES))

    def prepare(self, load: Load, first: int, processes: int) -> None:
        """Start its load processes, and wait until they are ready."""
        values = {"load": asdict(load), "first": first, "processes": processes}
        self._send(protocol.LOAD, json.dumps(values).encode())
        self._await(protocol.READY, monotonic() + STEP_S)

    def start(self, times: AgreedTimes) -> None:
        """Send the agreed times, which are those of its own clock."""
        self._send(protocol.START, json.dumps(asdict(times)).encode())

    def samples(self, until: float) -> list[Samples]:
        """Wait for its samples, and return them; the first ones must arrive by `until`.

        Further ones must follow within STEP_S each: its agent may respond while its load hangs.
        """
        data, digest = bytearray(), hashlib.sha256()
        while (frame := self._next_with_heartbeat(until)).kind != protocol.DONE:
            if frame.kind == protocol.FAIL:
                raise LostHostError(_text(frame.content))
            if frame.kind == protocol.DATA:
                until = monotonic() + STEP_S
                data += frame.content
                digest.update(frame.content)
                if len(data) > MOST_BYTES:
                    raise LostHostError("its samples are too large")
        done = _json(frame.content)
        if done.get("bytes") != len(data) or done.get("sha256") != digest.hexdigest():
            raise LostHostError("its samples were damaged on the way")
        try:
            return protocol.decode_samples(bytes(data))
        except protocol.BadSamplesError as error:
            raise LostHostError(str(error)) from None

    def end(self) -> None:
        """End the agent, and close the connection, also if the agent does not respond."""
        try:
            self._send(protocol.END)
        except LostHostError:
            pass
        finally:
            self._channel.close()

    def close(self) -> None:
        """End the connection at once."""
        self._channel.close()

    def _exchange(self, until: float) -> Exchange:
        sent = monotonic()
        self._send(protocol.PING, json.dumps({"sent": sent}).encode())
        while True:
            values = _json(self._await(protocol.PONG, until).content)
            returned = monotonic()
            if values.get("sent") != sent:
                continue  # the late response to a heartbeat
            received, replied = (_time(values.get(name)) for name in ("received", "replied"))
            found = Exchange(sent, received, replied, returned)
            if found.round_trip_s < 0:  # it would be selected as the shortest
                raise LostHostError("its clock jumped while it was measured")
            return found

    def _next_with_heartbeat(self, until: float) -> Frame:
        """Return the next frame that is no PONG, and send a PING every PING_S meanwhile.

        Raise LostHostError after `until`, or if no frame arrives for SILENCE_S.
        """
        last_frame_at = last_ping_at = monotonic()
        while True:
            now = monotonic()
            if now > until:
                raise LostHostError("its load did not end in time")
            if now - last_frame_at > SILENCE_S:
                raise LostHostError(f"it did not respond for {SILENCE_S:.0f} s")
            if now - last_ping_at >= PING_S:
                self._send(protocol.PING, json.dumps({"sent": now}).encode())
                last_ping_at = now
            try:
                frame = self._next(PING_S / 2)
            except TimeoutError:
                continue
            last_frame_at = monotonic()
            if frame.kind != protocol.PONG:
                return frame

    def _await(self, kind: bytes, until: float) -> Frame:
        """Return the next frame of a kind; skip the late responses to heartbeats."""
        while (left_s := until - monotonic()) > 0:
            try:
                frame = self._next(left_s)
            except TimeoutError:
                break
            if frame.kind == kind:
                return frame
            if frame.kind == protocol.FAIL:
                raise LostHostError(_text(frame.content))
        raise LostHostError(f"it did not respond within {STEP_S:.0f} s")

    def _next(self, timeout_s: float) -> Frame:
        try:
            frame = self._frames.next(timeout_s)
        except TimeoutError:
            raise
        except BadFrameError as error:
            raise LostHostError(str(error)) from None
        except OSError as error:
            raise LostHostError(f"the connection failed ({error})") from None
        if frame is None:
            code, line = self._channel.exit_report()
            how = "" if code is None else f" with exit code {code}"
            raise LostHostError(f"its agent ended{how}{f': {line}' if line else ''}")
        return frame

    def _send(self, kind: bytes, content: bytes = b"") -> None:
        try:
            self._channel.send(protocol.pack_frame(kind, content))
        except OSError as error:
            raise LostHostError(f"the connection failed ({error or 'it is closed'})") from None

    def _missing(self) -> MachineError:
        """Return the error for a host whose agent did not start."""
        code, line = self._channel.exit_report()
        install = INSTALL.format(host=self.name)
        if code == 127 or "not found" in line:
            return MachineError(f"host {self.name} has no command offload", install)
        output = line or _text(self._frames.rest).strip().rpartition("\n")[2][:200] or "nothing"
        return MachineError(f"host {self.name}: offload load_host printed {output!r}", install)


def _json(content: bytes) -> dict[str, Any]:
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise LostHostError("it sent something that is not JSON")
    return values


def _time(value: object) -> float:
    if isinstance(value, int | float) and abs(value) < LATEST_S:
        return float(value)
    raise LostHostError("its time stamps are not numbers")


def _text(content: bytes) -> str:
    """Return text from another machine, without control characters."""
    text = content.decode(errors="replace")[:1000]
    return "".join(c if c.isprintable() else " " for c in text)


# The offset of a host's monotonic clock, from round trips with four time stamps. The machine that
# measures notes when it sends (1) and when the response arrives (4), the host when the request
# arrives (2) and when it responds (3). These are the time stamps of NTP (RFC 5905, 8). Whatever
# share of the round trip each direction takes, the estimate ((2 - 1) + (3 - 4)) / 2 differs from
# the true offset by at most half of the round trip, (4 - 1) - (3 - 2). So the exchange with the
# shortest round trip has the smallest bound.
EXCHANGES = 24
DRIFT = 500e-6  # s per s: the largest rate at which NTP slews a clock; it may slew both clocks


@dataclass(frozen=True)
class Exchange:
    """The four time stamps of one round trip, in s: `received` and `replied` are of the host."""

    sent: float
    received: float
    replied: float
    returned: float

    @property
    def round_trip_s(self) -> float:
        """The time on the way in both directions."""
        return (self.returned - self.sent) - (self.replied - self.received)


@dataclass(frozen=True)
class ClockOffset:
    """At the time `at`, a host's clock is ahead of this machine's by `ahead_s` +-`bound_s`."""

    ahead_s: float
    bound_s: float
    at: float

    @property
    def clock(self) -> Clock:
        """The host's clock, if it does not drift."""
        return Clock(self.ahead_s, at=self.at)


def estimate_offset(exchanges: Iterable[Exchange]) -> ClockOffset:
    """Return the offset from the exchange with the shortest round trip."""
    best = min(exchanges, key=lambda each: each.round_trip_s)
    ahead = ((best.received - best.sent) + (best.replied - best.returned)) / 2
    return ClockOffset(ahead, max(0.0, best.round_trip_s / 2), (best.sent + best.returned) / 2)


def clock_between(before: ClockOffset, after: ClockOffset | None) -> Clock:
    """Return the clock of a host during a load: its offset is interpolated.

    Its error in between is at most the larger bound of both.
    """
    if after is None or after.at <= before.at:
        return before.clock
    drift = (after.ahead_s - before.ahead_s) / (after.at - before.at)
    return Clock(before.ahead_s, drift, before.at)


def has_jumped(before: ClockOffset, after: ClockOffset) -> bool:
    """Whether two offsets differ by more than their bounds and the drift of clocks explain."""
    explained = before.bound_s + after.bound_s + 2 * DRIFT * abs(after.at - before.at)
    return abs(after.ahead_s - before.ahead_s) > explained
