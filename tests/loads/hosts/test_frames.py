"""Frames arrive whole, whatever is printed before them and however they are divided."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offload.loads.hosts import protocol
from offload.loads.hosts.protocol import BadFrameError, Frame, FrameReader


class Stream:
    """A stream whose parts arrive one by one; None is a part that did not arrive in time."""

    def __init__(self, *parts: bytes | None) -> None:
        self.parts = list(parts)

    def receive(self) -> bytes:
        part = self.parts.pop(0) if self.parts else b""
        if part is None:
            raise TimeoutError
        return part


@given(st.binary(max_size=200), st.integers(1, 50))
def test_a_frame_arrives_in_any_pieces(content: bytes, size: int) -> None:
    data = protocol.pack_frame(protocol.DATA, content) + protocol.pack_frame(protocol.DONE)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    reader = FrameReader(Stream(*pieces).receive)
    assert [reader.next(), reader.next(), reader.next()] == [
        Frame(protocol.DATA, content),
        Frame(protocol.DONE, b""),
        None,
    ]


def test_a_timeout_keeps_what_has_arrived() -> None:
    data = protocol.pack_frame(protocol.DATA, b"samples")
    reader = FrameReader(Stream(data[:5], None, data[5:15], None, data[15:]).receive)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            reader.next()
    assert reader.next() == Frame(protocol.DATA, b"samples")


def test_what_a_login_shell_prints_is_skipped() -> None:
    data = b"Welcome!\n" + protocol.MAGIC + protocol.pack_frame(protocol.HELLO, b"{}")
    reader = FrameReader(Stream(data[:12], data[12:]).receive)
    assert reader.skip_preamble() == b"Welcome!\n"
    assert reader.next() == Frame(protocol.HELLO, b"{}")


@pytest.mark.parametrize("parts", [(b"bash: offload: command not found\n",), ()])
def test_a_stream_without_an_agent_has_no_start(parts: tuple[bytes, ...]) -> None:
    reader = FrameReader(Stream(*parts).receive)
    assert reader.skip_preamble() is None
    assert reader.rest == b"".join(parts)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (protocol.pack_frame(protocol.DATA, b"samples").replace(b"s", b"S"), "damaged"),
        (protocol.pack_frame(protocol.DATA, b"samples")[:-1], "within a frame"),
        (b"GET / HTTP/1.1\r\n\r\n", "bytes"),
    ],
)
def test_what_is_no_frame_is_an_error(data: bytes, message: str) -> None:
    with pytest.raises(BadFrameError, match=message):
        FrameReader(Stream(data).receive).next()
