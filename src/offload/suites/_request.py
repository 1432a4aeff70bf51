"""The request that users of a case send: a path, a method, a body and headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from offload.loads import BODY_MARK, MASK, Message, body_facts, mask_query, parse_headers

SHOWN = 40  # characters of a body in its short form


@dataclass(frozen=True)
class Request:
    """One request; a body that looks like JSON is sent as JSON, any other body as a form.

    `header` contains one or more headers: `A: 1; B: 2`. Files contain only the values of harmless
    headers and parameters; other values are masked. The body of a user's request, which is
    `private`, is replaced by its hash there.
    """

    path: str = "/"
    method: str = "GET"
    body: str | None = None
    header: str | None = None
    private: bool = field(default=False, compare=False)

    @property
    def message(self) -> Message:
        """The method, body and headers that load tools send; raise UsageError if invalid."""
        return Message(self.method, self.body, parse_headers(self.header or ""))

    @property
    def is_masked(self) -> bool:
        """Whether it was read from a file in which a value or the body is masked."""
        is_hash = (self.body or "").startswith(BODY_MARK)
        values = self.message.headers.values()
        return is_hash or MASK in values or f"={MASK}" in self.path

    @property
    def masked(self) -> Mapping[str, object]:
        """The fields as written to files; `header` is absent without headers, as in old records."""
        facts = asdict(self)
        del facts["private"]
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
        shown = body if len(body) <= SHOWN else f"{body[: SHOWN - 3]}..."
        return " ".join(word for word in (self.method, str(facts["path"]), shown) if word)
