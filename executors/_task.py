"""A task: one call on its way through a pool, and what is known of the function it calls."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import math
import pickle
from dataclasses import dataclass
from numbers import Real
from time import monotonic_ns
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from executors._link import Link

Future = asyncio.Future[Any] | concurrent.futures.Future[Any]

GAP = getattr(functools, "Placeholder", None)
LEARN = 0.1  # the share of a shorter run in the next estimate: it decays in about ten runs


class Function:
    """A function that workers know by its number.

    `estimate` is a decaying maximum of its run times in ns, None before the first run ended. Number
    0 is what a worker does not keep, such as a bound method; it is pickled with every call.
    """

    __slots__ = ("callable", "code", "estimate", "number")

    def __init__(self, number: int, callable_: Any, code: bytes | None) -> None:
        self.number = number
        self.callable = callable_
        self.code = code
        self.estimate: float | None = None

    def learn(self, took: float) -> None:
        """Take a run of `took` ns into the estimate."""
        estimate = self.estimate
        if estimate is None or took > estimate:
            self.estimate = float(took)
        else:
            self.estimate = estimate + (took - estimate) * LEARN


class Functions:
    """The functions of a pool by what they are: each is pickled once a pool, sent once a worker."""

    def __init__(self) -> None:
        self._known: dict[Any, Function] = {}

    def of(self, callable_: Any) -> Function:
        """Give what is known of a callable; raise what pickle raises for a lambda and its like."""
        kind = type(callable_)
        if kind is not FunctionType and kind is not type and not _is_builtin(callable_):
            return Function(0, callable_, None)  # it has a state, which may be another each time
        known = self._known.get(callable_)
        if known is None:
            code = pickle.dumps(callable_, 5)
            known = self._known[callable_] = Function(len(self._known) + 1, callable_, code)
        return known


def _is_builtin(callable_: Any) -> bool:
    """Whether it is a module's own, such as `len`: "x".upper is of the same type."""
    return type(callable_) is BuiltinFunctionType and type(callable_.__self__) is ModuleType


def is_with_gaps(function: functools.partial[Any]) -> bool:
    """Whether a partial has places that later arguments fill (Python 3.14)."""
    return GAP is not None and any(each is GAP for each in function.args)


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller may ask for beside the call itself; times are in seconds."""

    timeout: float | None = None
    queue_timeout: float | None = None
    idempotent: bool = False
    lease: bool = False
    kill: bool = False  # also when the caller cancels
    lend: bool = False

    def __post_init__(self) -> None:
        for name in ("timeout", "queue_timeout"):
            seconds = getattr(self, name)
            is_number = isinstance(seconds, Real) and not math.isnan(seconds)
            if seconds is not None and not is_number:
                raise TypeError(f"{name} must be a number of seconds or None, not {seconds!r}")


PLAIN = Options()


class Task:
    """One call: `queued`, or held by the worker of `link` as `sequence`, or `gone`."""

    queued = False
    begun = False  # it was sent once, so that its future cannot be cancelled any more
    gone = False  # it has ended, or nobody waits for it
    retried = False
    cost = 0.0  # ns of its worker's load
    sent = sequence = 0
    link: Link | None = None
    timer: asyncio.TimerHandle | None = None
    take_by: float | None = None  # when a worker must have taken it, in the loop's time

    def __init__(
        self,
        function: Function,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        future: Future,
        options: Options,
        values: list[tuple[int, Any]] | None = None,
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.future = future
        self.options = options
        # what goes beside the arguments: the callable itself, values of context variables
        self.more = (
            (None if function.number else function.callable, values)
            if values or not function.number
            else None
        )
        self.submitted = monotonic_ns()
