"""The task timeout: a request whose task runs too long is answered with 504.

What happens to the task depends on where it runs:

* in a process: the pool kills the worker and replaces it (`timeout=` of the pools)
* in a thread: nothing can end it. It is abandoned, and the thread is stuck until the task ends
* in a coroutine: it is cancelled; one that ignores that continues, too
* in a function on the event loop: the loop is blocked. The whole process is killed if it is one of
  several that are replaced (prefork), else there is no timeout
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from offload.registry.protection import DEFAULTS, Settings
from offload.serving.protection.disconnect import Client
from offload.serving.protection.expiry import Expiry

T = TypeVar("T")


def of_pool(settings: Settings) -> float | None:
    """Return the `timeout` in seconds with which a pool runs each task; None without protection."""
    known = DEFAULTS | settings
    return known["task_timeout"] if known["protect"] == "yes" else None


class Abandoned(Exception):
    """A task has ended after its timeout; its request was answered then."""


class Abandonment:
    """Tasks that may not end: at the timeout, `answer` responds to the client.

    `stuck` is the number of tasks that have exceeded the timeout and have not ended.
    """

    def __init__(self, seconds: float, answer: Callable[[Client], object]) -> None:
        self.seconds = seconds
        self._answer = answer
        self._running: Expiry[Client] = Expiry(seconds, self._abandon)
        self._stuck: set[Client] = set()

    @property
    def stuck(self) -> int:
        """The number of tasks that have exceeded the timeout and have not ended."""
        return len(self._stuck)

    async def run(self, task: Awaitable[T], client: Client) -> T:
        """Return the result of a task; raise Abandoned if it ended after the timeout."""
        self._running.add(client)
        try:
            result = await task
        except Exception as error:
            if client in self._stuck:  # its request was answered: an error is no second response
                raise Abandoned from error
            raise
        else:
            if client in self._stuck:
                raise Abandoned
            return result
        finally:
            self._running.remove(client)
            self._stuck.discard(client)

    def _abandon(self, client: Client) -> None:
        self._stuck.add(client)
        self._answer(client)
