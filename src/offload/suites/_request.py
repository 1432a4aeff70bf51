"""The request that users of a case send: a path, a method and a body."""

from __future__ import annotations

from dataclasses import dataclass

SHOWN = 40  # characters of a body in its short form


@dataclass(frozen=True)
class Request:
    """One request; a body that looks like JSON is sent as JSON, any other as a form."""

    path: str = "/"
    method: str = "GET"
    body: str | None = None

    @property
    def short_form(self) -> str:
        """The short form: `POST /graphql {"query": "{ hello }"}`."""
        body = self.body or ""
        shown = body if len(body) <= SHOWN else f"{body[: SHOWN - 3]}..."
        return " ".join(word for word in (self.method, self.path, shown) if word)
