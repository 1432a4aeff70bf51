"""The task timeout: a request whose task runs too long is answered with 504.

What happens to the task depends on where it runs:

* in a process: the pool kills the worker and replaces it (`timeout=` of the pools)
* in a thread: nothing can end it. It is abandoned, and the thread is stuck until the task ends
* in a coroutine: it is cancelled; one that ignores that continues, too
* in a function on the event loop: the loop is blocked. The whole process is killed if it is one of
  several that are replaced (prefork), else there is no timeout
"""

from __future__ import annotations

from collections.abc import Callable

from offload.registry.entries import PROTECTION_DEFAULTS, ProtectionSettings
from offload.serving.protection.disconnect import Client
from offload.serving.protection.expiry import Expiry


def of_pool(settings: ProtectionSettings) -> float | None:
    """Return the `timeout` in seconds with which a pool runs each task; None without protection."""
    known = PROTECTION_DEFAULTS | settings
    return known["task_timeout"] if known["protect"] == "yes" else None


class Abandoned(Exception):
    """A task has ended after its timeout; its request was answered then."""


class Timeouts(Expiry[Client]):
    """Tasks that may not end: at the timeout of one, `answer` responds to its client.

    `add` and `end` enclose the run of a task.
    """

    def __init__(self, seconds: float, answer: Callable[[Client], object]) -> None:
        super().__init__(seconds, self._abandon)
        self._answer = answer
        self._stuck: set[Client] = set()

    @property
    def stuck(self) -> int:
        """The number of tasks that have exceeded the timeout and have not ended."""
        return len(self._stuck)

    def end(self, client: Client) -> bool:
        """Forget the task of a client; return whether it has exceeded the timeout."""
        if self.remove(client):
            return False
        self._stuck.remove(client)
        return True

    def _abandon(self, client: Client) -> None:
        self._stuck.add(client)
        self._answer(client)
