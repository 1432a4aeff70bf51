"""The claims of the tornado benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from offload.suites import Case, Claim, _tornado_later
from offload.suites._claim import MEMORY
from offload.suites._tornado_later import NO_HELP, Row

WHO, WHERE = "pioneer/httpd-background-tasks", "README.rst of 2017-04-06, fea83d2"
CONDITIONS = "a laptop's i7-5500U with 2 cores, siege -b, 25 users, 60 s, 4 workers"
BARE_READ = "the published task only read 69 bytes; here the task also writes the file with fsync"
PLAIN_HTTP = "the published async task fetched over HTTP, and the blocking task over HTTPS"

# Name, sentence, two cases (server and task), and the ratio of their published rates.
DIFFERENT: tuple[Row, ...] = (
    (
        "threads, sleep",
        "4 threads have 4 times the rate of a blocked loop",
        "loop sleep_sync",
        "threads sleep_sync",
        14.20 / 3.54,
    ),
    (
        "processes, HTTP",
        "processes are faster on local HTTP",
        "threads network_sync_local",
        "processes network_sync_local",
        274.92 / 164.64,
    ),
    (
        "processes, HTTPS",
        "processes are faster on HTTPS",
        "threads network_https_sync",
        "processes network_https_sync",
        5.07 / 4.60,
    ),
    (
        "processes, HTTPS + CPU",
        "processes are faster if a feed is parsed in Python",
        "threads network_https_cpu_bound_sync",
        "processes network_https_cpu_bound_sync",
        1.15 / 0.45,
    ),
    (
        "the same with lxml",
        "the same ratio, if the feed were parsed in C",
        "threads network_https_cpu_bound_lxml_sync",
        "processes network_https_cpu_bound_lxml_sync",
        1.15 / 0.45,
    ),
)
ALIKE: tuple[Row, ...] = (
    (
        "loop = sync",
        "a blocked loop is as fast as a plain server",
        "sync sleep_sync",
        "loop sleep_sync",
        0.997,
    ),
    ("processes, sleep", NO_HELP, "threads sleep_sync", "processes sleep_sync", 14.22 / 14.20),
    (
        "processes, internet",
        NO_HELP,
        "threads network_sync_google",
        "processes network_sync_google",
        3.16 / 3.29,
    ),
    ("no help: HTTP", NO_HELP, "threads network_sync_local", "processes network_sync_local", None),
    ("no help: HTTPS", NO_HELP, "threads network_https_sync", "processes network_https_sync", None),
)
# The published task read only 69 bytes; the later table has the current task.
FILE: tuple[Row, ...] = (
    (
        "processes, file",
        "processes are slower on a file",
        "threads file_sync",
        "processes file_sync",
        569 / 647.2,
    ),
)
NO_HELP_FILE: tuple[Row, ...] = (
    ("no help: file", NO_HELP, "threads file_sync", "processes file_sync", None),
)
MEMORY_OF: tuple[Row, ...] = (
    (
        "memory",
        "processes use the most memory",
        "threads sleep_sync",
        "processes sleep_sync",
        None,
    ),
)


def claims(cases: Sequence[Case]) -> tuple[Claim, ...]:
    """Create the claims about these cases; the first case of a server and task counts."""
    known = {f"{case.server} {case.task}": case for case in reversed(cases)}
    known |= {f"{case.server} {case.task} {case.users}": case for case in cases}

    def claims_of(
        rows: Sequence[Row],
        published: tuple[str, str] = (WHERE, CONDITIONS),
        **how: Any,
    ) -> list[Claim]:
        where, how["conditions"] = published
        return [
            Claim(name, WHO, where, statement, known[one], known[other], ratio, **how)
            for name, statement, one, other, ratio in rows
        ]

    later = _tornado_later.WHERE, _tornado_later.CONDITIONS
    return (
        *claims_of(DIFFERENT),
        *claims_of(
            (*_tornado_later.LOOP, *_tornado_later.CROWDS, *_tornado_later.PROCESSES), later
        ),
        *claims_of(ALIKE, alike=True),
        *claims_of(FILE, work=BARE_READ),
        *claims_of(NO_HELP_FILE, alike=True, work=BARE_READ),
        *claims_of(_tornado_later.ALIKE, later, alike=True),
        *claims_of(_tornado_later.CPU, later, work=PLAIN_HTTP),
        *claims_of(MEMORY_OF, later, figure=MEMORY),
    )
