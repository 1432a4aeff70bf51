"""The load of a case: the request of its users, where it is sent from, and on which CPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from offload.errors import MachineError, UsageError
from offload.loads import BODY_MARK, MASK, Message, Sender, body_facts, mask_query, parse_headers

SHOWN_BODY = 40  # characters of a body in its short form


@dataclass(frozen=True)
class Request:
    """One request; a body that looks like JSON is sent as JSON, any other body as a form.

    `header` contains one or more headers: `A: 1; B: 2`. Files contain only the values of harmless
    headers and parameters; other values are masked. The body of a user's request, which is
    `private`, is replaced by its hash there. `beside` is the path of a light route that is also
    requested, sparsely, while the users send this request.
    """

    path: str = "/"
    method: str = "GET"
    body: str | None = None
    header: str | None = None
    private: bool = field(default=False, compare=False)
    beside: str | None = None

    @property
    def message(self) -> Message:
        """The method, body and headers that load tools send; raise UsageError if invalid."""
        return Message(self.method, self.body, parse_headers(self.header or ""))

    @property
    def is_masked(self) -> bool:
        """Whether it was read from a file in which a value or the body is masked."""
        is_hash = (self.body or "").startswith(BODY_MARK)
        values = self.message.headers.values()
        paths = f"{self.path} {self.beside or ''}"
        return is_hash or MASK in values or f"={MASK}" in paths

    @property
    def masked(self) -> Mapping[str, object]:
        """The fields as written to files; `header` and `beside` are absent if there are none."""
        facts = asdict(self)
        del facts["private"]
        if self.beside is None:
            del facts["beside"]
        else:
            facts["beside"] = mask_query(self.beside)
        facts["path"] = mask_query(self.path)
        if self.private and self.body is not None:
            facts["body"] = body_facts(self.body)
        if self.header is None:
            del facts["header"]
        else:
            shown = self.message.masked().headers.items()
            facts["header"] = "; ".join(f"{name}: {value}" for name, value in shown)
        return facts

    @property
    def key(self) -> tuple[object, ...]:
        """The identity of a request."""
        return tuple(self.masked.values())

    @property
    def short_form(self) -> str:
        """The short form: `POST /graphql {"query": "{ hello }"}`."""
        facts = self.masked
        body = str(facts["body"] or "")
        shown = body if len(body) <= SHOWN_BODY else f"{body[: SHOWN_BODY - 3]}..."
        return " ".join(word for word in (self.method, str(facts["path"]), shown) if word)


PIN_FORM = "pin=yes, or the CPUs of the server and of the load tool, as pin=0-2/3 or pin=0+1/2+3"
LARGEST_CPU = 4095  # number of a CPU


@dataclass(frozen=True)
class Placement:
    """The `hosts` that send the load by SSH (none: this machine), and CPUs (none: all).

    With CPUs the server and the load tool have disjoint sets of them.
    """

    hosts: tuple[str, ...] = ()
    server_cpus: tuple[int, ...] = ()
    load_cpus: tuple[int, ...] = ()

    @property
    def sender(self) -> Sender:
        """The sender of the load; it may only be sent to this machine."""
        return Sender(self.hosts, self.load_cpus)

    @property
    def pin(self) -> str | None:
        """The CPUs of the server and of the load tool: 0-2/3."""
        if not self.load_cpus:
            return None
        return f"{ranges(self.server_cpus)}/{ranges(self.load_cpus)}"

    @property
    def label(self) -> str:
        """The difference from a load that this machine sends from any CPU, to add to a case."""
        sent = f" load from {'+'.join(self.hosts)}" if self.hosts else ""
        return sent + (f" pin={self.pin}" if self.pin else "")


ANYWHERE = Placement()


def parse_pin(text: str, available: Sequence[int], processes: int = 1) -> Placement:
    """Return the CPUs of `pin=`; raise UsageError, or MachineError if there are too few.

    `yes` assigns the last CPUs to the load tool, one for each of its `processes`, and the others to
    the server, at least one.
    """
    if len(available) < 2:
        count = len(available) or "no known"
        what = f"pin= needs two CPUs, and this process may use {count}"
        raise MachineError(what, "leave it out")
    if text == "yes":
        own = min(processes, len(available) - 1)
        return Placement((), tuple(available[:-own]), tuple(available[-own:]))
    server, slash, load = text.partition("/")
    parts = [_numbers(part, text) for part in (server, load)] if slash else []
    if not parts:
        raise UsageError(f"pin={text[:100]!r} is not a division of CPUs", f"write {PIN_FORM}")
    if both := {*parts[0]} & {*parts[1]}:
        what = f"pin={text[:100]!r} has CPU {min(both)} in both parts"
        raise UsageError(what, "use different CPUs for the server and the load tool")
    if missing := {*parts[0], *parts[1]} - {*available}:
        what = f"pin={text[:100]!r}: this process may not use CPU {min(missing)}"
        raise UsageError(what, f"it may use {ranges(available)}")
    return Placement((), *parts)


def ranges(cpus: Sequence[int]) -> str:
    """Return CPUs in the form of the option: 0-2+5."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return "+".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else str(r[0]) for r in runs)


def _numbers(part: str, text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for piece in part.split("+"):
        first, dash, last = piece.partition("-")
        words = (first, last if dash else first)
        if not all(w.isascii() and w.isdigit() and len(w) <= 4 for w in words):
            raise UsageError(f"pin={text[:100]!r} is not a division of CPUs", f"write {PIN_FORM}")
        low, high = (int(word) for word in words)
        if not low <= high <= LARGEST_CPU:
            raise UsageError(
                f"pin={text[:100]!r} has an invalid range of CPUs", f"write {PIN_FORM}"
            )
        found |= {*range(low, high + 1)}
    return tuple(sorted(found))
