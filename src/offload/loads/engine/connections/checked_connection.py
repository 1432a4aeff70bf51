"""A connection that checks the body of every response."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from offload.loads.engine.connections.connection import WRONG_BODY, Connection

if TYPE_CHECKING:
    from offload.loads.engine.connections.clients import Clients


class ExpectedBody:
    """The body that every response must have. Before the first response only its hash is known."""

    def __init__(self, sha256: str) -> None:
        self._sha256 = sha256
        self.content: bytes | None = None

    def is_equal(self, body: bytes) -> bool:
        """Whether a body is the expected one; compute hashes only while its content is unknown."""
        if self.content is None and hashlib.sha256(body).hexdigest() == self._sha256:
            self.content = body
        return body == self.content


class CheckedConnection(Connection):
    """A connection on which a response with an unexpected body fails.

    The check is not on the hot path, because bytes equal to the last good response need no check.
    Pieces of a body are compared without a copy; they are kept only while the expected body is
    unknown.
    """

    def __init__(self, clients: Clients, expected: ExpectedBody) -> None:
        super().__init__(clients)
        self._expected = expected
        self._start_body()

    def _start_body(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0
        self._is_equal = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._start_body()
        super().connection_made(transport)

    def on_body(self, piece: bytes) -> None:
        """Compare a piece of a response's body (httptools calls this)."""
        content = self._expected.content
        if content is None or self._pieces:
            self._pieces.append(piece)
        else:
            self._is_equal = self._is_equal and content.startswith(piece, self._length)
            self._length += len(piece)

    def _checked(self, status: int) -> int:
        content = self._expected.content
        if content is None or self._pieces:
            is_equal = self._expected.is_equal(b"".join(self._pieces))
        else:
            is_equal = self._is_equal and self._length == len(content)
        self._start_body()
        return WRONG_BODY if status < 400 and not is_equal else status
