"""Free threading: the gain of each server from a free-threaded Python with its GIL off."""

from __future__ import annotations

from offload.suites import Case

BUILD = "3.13t"  # built by scripts/install/python_free_threaded
WITH_GIL, WITHOUT = f"{BUILD}-gil", f"{BUILD}-nogil"
TASKS = ("sleep_short_sync", "xml_feedparser_sync", "sha256_sync", "noop_sync")
WORKERS = (1, 4)
# Each server, and the name of its setting for the number of threads or processes.
SERVERS = {
    "threads": "workers",
    "prefork": "processes",
    "granian_wsgi": "workers",
    "gunicorn_gthread": "workers",
}


def _case(server: str, task: str, workers: int, python: str) -> Case:
    return Case(
        server,
        task,
        users=2 * workers,
        seconds=10.0,
        settings={SERVERS[server]: workers},
        python=python,
        in_quick={"seconds": 4.0},
    )


def _cases(workers: int) -> tuple[Case, ...]:
    return tuple(
        _case(server, task, workers, python)
        for task in TASKS
        for server in SERVERS
        for python in (WITH_GIL, WITHOUT)
    )


CASES = _cases(4) + _cases(1)
IN_ALL = False  # it needs a free-threaded Python, which takes minutes to build
GROUPS = {f"workers_{count}": _cases(count) for count in WORKERS}
