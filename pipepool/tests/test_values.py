"""Which values can be arguments and results, beside the standard executor's."""

from __future__ import annotations

import asyncio
import pickle
import socket
from multiprocessing import resource_sharer
from multiprocessing.reduction import ForkingPickler

import pytest

from pipepool import PipePool
from pipepool.workers.protocol import LARGE
from pool_tests import calls
from pool_tests.helpers import LIMIT, in_pool

pytestmark = pytest.mark.server  # starts worker processes


def test_a_socket_can_be_an_argument_and_a_result() -> None:
    async def test(pool: PipePool) -> None:
        here, there = socket.socketpair()
        with here, there:
            assert await pool.run(calls.send_by, there, b"one") == 3
            assert await pool.run(calls.send_by, [there], b"two", kwargs={}) == 3
            assert here.recv(6) == b"onetwo"
            with await asyncio.wait_for(pool.run(calls.same, there), LIMIT) as back:
                back.sendall(b"three")
            assert here.recv(6) == b"three"

    try:
        in_pool(test, 1)
    finally:
        resource_sharer.stop(LIMIT)  # started in this process for the sockets


def test_what_multiprocessing_cannot_pickle_either_fails_with_its_error() -> None:
    async def test(pool: PipePool) -> None:
        with pytest.raises(TypeError, match="generator"):
            await pool.run(len, (each for each in "abc"))

    in_pool(test, 1)


def test_types_are_pickled_as_registered_with_multiprocessing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The standard executor does so for its own queues."""
    extra = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
    monkeypatch.setitem(extra, calls.Result, calls.reduce_result)

    async def test(pool: PipePool) -> None:
        assert (await pool.run(calls.same, calls.Result(3))).number == 4
        assert (await pool.run(calls.same, [calls.Result(3), b"x" * LARGE]))[0].number == 4

    in_pool(test, 1)


@pytest.mark.parametrize("size", [10, LARGE, 2 * LARGE])
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_a_buffer_arrives_with_the_same_type_whatever_its_size(
    kind: type[bytes | bytearray], size: int
) -> None:
    async def test(pool: PipePool) -> None:
        value = kind(size)
        expected = pickle.loads(pickle.dumps(pickle.PickleBuffer(value), 5))
        for found in (
            await pool.run(calls.same, pickle.PickleBuffer(value)),
            await pool.run(calls.buffer_of, value),
            (await pool.run(calls.same, [pickle.PickleBuffer(value)]))[0],
        ):
            assert type(found) is type(expected) and found == expected

    in_pool(test, 1)
