"""The strategies that serve a function, their sizes, and how many users keep them busy."""

from __future__ import annotations

from offload.registry import catalog
from offload.suites import Case

STRATEGIES = ("loop", "threads", "processes", "pipes", "prefork")  # the simplest one first
# The maximum number of workers that is considered, by strategy
MOST_WORKERS = {"loop": 1, "threads": 64, "processes": 32, "pipes": 32, "prefork": 32}
USERS_PER_WORKER = 2  # they keep all workers busy; more would only wait longer

Size = tuple[str, int]  # a strategy, and its number of workers (processes for prefork)


def size_of(case: Case) -> Size:
    """Return the strategy of a case and its number of workers; 1 for the loop."""
    setting = catalog.find_server(case.server).size
    return case.server, int(str(case.settings.get(setting or "", 1)))


def settings(size: Size) -> dict[str, object]:
    """Return the settings of a strategy's server for a size; none for the loop."""
    strategy, workers = size
    setting = catalog.find_server(strategy).size
    return {} if setting is None else {setting: workers}


def other_servers(strategy: str) -> list[str]:
    """Return the names of all other servers with a strategy: frameworks and pools in use."""
    return sorted(e.name for e in catalog.servers().values() if e.strategy == strategy)


def saturating_users(users: int, workers: int, is_coroutine: bool) -> int:
    """Return the number of users, at most `users`, that saturate `workers` workers.

    It is USERS_PER_WORKER for each worker, but at least that of two workers. All users are needed
    for a coroutine, because an event loop may await any number of them.
    """
    return users if is_coroutine else min(users, USERS_PER_WORKER * max(2, workers))
