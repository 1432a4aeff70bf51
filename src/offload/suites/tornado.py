"""The tornado benchmark: long tasks on a sync server, an event loop, threads and processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from offload.suites import MEMORY, Audit, Availability, Case, Claim, Figure, cases_of_claims

# Users with quick. With long tasks on 4 workers, the warm-up of 25 users takes most of a trial, and
# 8 users keep the workers equally busy. On an event loop whose task awaits or takes microseconds,
# users do not queue, so all users stay.
FEW_USERS: dict[str, object] = {"users": 8}
AS_WORKERS: dict[str, object] = {"users": 4}  # for a long task that uses a whole core
ALL_USERS: dict[str, object] = {}

# The 14 published rows, in the published order. The sync row runs longest: starvation in its short
# listen queue appears only after a minute.
PUBLISHED = (
    Case("sync", "sleep_sync", seconds=60),
    Case("loop", "sleep_sync"),
    Case("threads", "sleep_sync", in_quick=FEW_USERS),
    Case("processes", "sleep_sync", in_quick=FEW_USERS),
    Case("threads", "network_sync_google"),
    Case("processes", "network_sync_google"),
    Case("threads", "network_sync_local"),
    Case("processes", "network_sync_local"),
    Case("threads", "file_sync"),
    Case("processes", "file_sync"),
    Case("threads", "network_https_sync"),
    Case("processes", "network_https_sync"),
    Case("threads", "network_https_cpu_bound_sync", in_quick=AS_WORKERS),
    Case("processes", "network_https_cpu_bound_sync", in_quick=AS_WORKERS),
)

# The same project's later measurements: async twins on the loop, and tasks of microseconds.
LATER = (
    Case("loop", "sleep_async"),
    Case("loop", "sleep_async_split", in_quick=ALL_USERS),
    Case("loop", "network_async_local", in_quick=ALL_USERS),
    Case("loop", "network_async_external", in_quick=ALL_USERS),
    Case("loop", "network_async_external_retry", in_quick=ALL_USERS),
    Case("loop", "network_https_async", in_quick=ALL_USERS),
    Case("loop", "network_https_async_retry", in_quick=ALL_USERS),
    Case("loop", "network_https_cpu_bound_async", in_quick=FEW_USERS),
    Case("loop", "file_async", in_quick=ALL_USERS),
    Case("loop", "simplehash_async", in_quick=ALL_USERS),
    Case("threads", "simplehash_sync"),
    Case("processes", "simplehash_sync"),
    Case("loop", "checksum_async", in_quick=ALL_USERS),
    Case("threads", "checksum_sync"),
    Case("processes", "checksum_sync"),
)

# Pairs that show the cost of the GIL: the same XML is parsed holding and releasing the GIL.
GIL = (
    Case("threads", "xml_feedparser_sync", in_quick=FEW_USERS),
    Case("processes", "xml_feedparser_sync", in_quick=FEW_USERS),
    Case("threads", "xml_lxml_sync", in_quick=FEW_USERS),
    Case("processes", "xml_lxml_sync", in_quick=FEW_USERS),
    Case("threads", "network_https_cpu_bound_lxml_sync", in_quick=FEW_USERS),
    Case("processes", "network_https_cpu_bound_lxml_sync", in_quick=FEW_USERS),
    Case("threads", "noop_sync"),
    Case("processes", "noop_sync"),
)

# A local upstream responds immediately, so network tasks measure mostly their own Python code. The
# upstream of these cases responds after a delay, as real services do.
LATENCY = (
    Case("threads", "network_sync_20ms"),
    Case("processes", "network_sync_20ms"),
    Case("threads", "network_sync_100ms"),
    Case("processes", "network_sync_100ms"),
)

# The same project's measurements with more users than workers.
CROWD = tuple(
    Case(server, task, users, in_quick=ALL_USERS)
    for users in (254, 512)
    for server, task in (
        ("loop", "sleep_async_split"),
        ("threads", "sleep_sync"),
        ("processes", "sleep_sync"),
        ("loop", "simplehash_async"),
        ("threads", "simplehash_sync"),
        ("processes", "simplehash_sync"),
    )
)

CASES = PUBLISHED + LATENCY + LATER + CROWD + GIL

# Compares interpreters with pythons=. More users would only wait longer for the pool.
MATRIX = tuple(
    Case(server, task, users=8, seconds=8.0, in_quick={"seconds": 4.0})
    for task in ("xml_feedparser_sync", "xml_lxml_sync", "sleep_sync", "noop_sync")
    for server in ("threads", "processes", "interpreters")
)

# The cost of protection: each case without and with protect=yes. No request is refused at this
# load, so the rates should be equal. A task that does nothing shows the largest share.
PROTECTION = tuple(
    Case(server, task, users=8, seconds=8.0, settings=settings, in_quick={"seconds": 4.0})
    for task in ("noop_sync", "sleep_sync")
    for server in ("loop", "threads", "processes", "pipes")
    for settings in ({}, {"protect": "yes"})
    if (server, task) != ("loop", "sleep_sync")  # it needs half a minute for 8 users
)


# The claims. Of each table: where it was published, and how it was measured.
WHO = "pioneer/httpd-background-tasks"
FIRST_TABLE = (
    "README.rst of 2017-04-06, fea83d2",
    "a laptop's i7-5500U with 2 cores, siege -b, 25 users, 60 s, 4 workers",
)
LATER_TABLE = (
    "README.rst of 2017-04-20, 5ef06d5",
    "siege -b, 25 users unless named, 300 s, as many workers as CPUs",
)
DEFAULT = "one loop of async code is the best in most tests, and can be the default"
GOOD = "processes are good at CPU work and files"
SMALL = "processes are slower for tasks that take microseconds"
NO_HELP = "network and I/O run outside the GIL, so processes help little over threads"
BARE_READ = "the published task only read 69 bytes; here the task also writes the file with fsync"
PLAIN_HTTP = "the published async task fetched over HTTP, and the blocking task over HTTPS"

Row = tuple[str, str, str, str, float | None]

# Name, sentence, two cases (server, task, users if given), the ratio of their published rates.
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

# The later table: async tasks, tasks of microseconds, many users.
LOOP: tuple[Row, ...] = (
    (
        "loop, split",
        "a loop whose task awaits serves all users at once",
        "loop sleep_sync",
        "loop sleep_async_split",
        88.18 / 3.54,
    ),
    (
        "loop, split : threads",
        DEFAULT,
        "threads sleep_sync",
        "loop sleep_async_split",
        88.18 / 14.24,
    ),
    ("loop, HTTP", DEFAULT, "threads network_sync_local", "loop network_async_local", 575 / 301),
    (
        "loop : processes, HTTP",
        DEFAULT,
        "processes network_sync_local",
        "loop network_async_local",
        575 / 504,
    ),
    ("loop, HTTPS", DEFAULT, "threads network_https_sync", "loop network_https_async", 22.7 / 9.7),
    (
        "loop : processes, HTTPS",
        DEFAULT,
        "processes network_https_sync",
        "loop network_https_async",
        22.7 / 9.1,
    ),
    (
        "loop, file",
        "threads are faster on a file",
        "threads file_sync",
        "loop file_async",
        27.0 / 46.3,
    ),
    (
        "loop : processes, file",
        GOOD,
        "processes file_sync",
        "loop file_async",
        27.0 / 46.9,
    ),
    ("loop, simplehash", DEFAULT, "threads simplehash_sync", "loop simplehash_async", 1349 / 1081),
    (
        "loop : processes, simplehash",
        DEFAULT,
        "processes simplehash_sync",
        "loop simplehash_async",
        1349 / 889,
    ),
    ("loop, checksum", DEFAULT, "threads checksum_sync", "loop checksum_async", 1303 / 1029),
    (
        "loop : processes, checksum",
        DEFAULT,
        "processes checksum_sync",
        "loop checksum_async",
        1303 / 938,
    ),
)
# simplehash with more users: the rates of loop, threads and processes.
MORE_USERS = {254: (1407, 1036, 894), 512: (1390, 982, 865)}
CROWDS: tuple[Row, ...] = tuple(
    (f"{name}, {users} users", statement, f"{one} {users}", f"{other} {users}", ratio)
    for users, (loop, threads, processes) in MORE_USERS.items()
    for name, statement, one, other, ratio in (
        (
            "loop, simplehash",
            DEFAULT,
            "threads simplehash_sync",
            "loop simplehash_async",
            loop / threads,
        ),
        (
            "loop : processes, simplehash",
            DEFAULT,
            "processes simplehash_sync",
            "loop simplehash_async",
            loop / processes,
        ),
        (
            "processes, simplehash",
            SMALL,
            "threads simplehash_sync",
            "processes simplehash_sync",
            processes / threads,
        ),
    )
)
# Tasks whose async twin on the loop did different work.
CPU: tuple[Row, ...] = (
    (
        "loop, HTTPS + CPU",
        DEFAULT,
        "threads network_https_cpu_bound_sync",
        "loop network_https_cpu_bound_async",
        0.83 / 0.66,
    ),
    (
        "loop : processes, HTTPS + CPU",
        GOOD,
        "processes network_https_cpu_bound_sync",
        "loop network_https_cpu_bound_async",
        0.83 / 1.54,
    ),
)
PROCESSES: tuple[Row, ...] = (
    (
        "processes, HTTP, later",
        "processes are faster on local HTTP",
        "threads network_sync_local",
        "processes network_sync_local",
        504 / 301,
    ),
    (
        "processes, HTTPS + CPU, later",
        GOOD,
        "threads network_https_cpu_bound_sync",
        "processes network_https_cpu_bound_sync",
        1.54 / 0.66,
    ),
    (
        "processes, simplehash",
        SMALL,
        "threads simplehash_sync",
        "processes simplehash_sync",
        889 / 1081,
    ),
    ("processes, checksum", SMALL, "threads checksum_sync", "processes checksum_sync", 938 / 1029),
)
LATER_ALIKE: tuple[Row, ...] = (
    (
        "processes, HTTPS, later",
        NO_HELP,
        "threads network_https_sync",
        "processes network_https_sync",
        9.1 / 9.7,
    ),
    ("processes, file, later", NO_HELP, "threads file_sync", "processes file_sync", 46.9 / 46.3),
)

NOT_COMPLETED = "in the table some requests of this row were not completed"

# The published availabilities below 100 %: name, source and conditions, server and task, share, and
# how the published work differs.
UNAVAILABLE = (
    ("availability, sync", FIRST_TABLE, "sync sleep_sync", 0.9677, None),
    ("availability, processes, HTTP", LATER_TABLE, "processes network_sync_local", 0.9621, None),
    (
        "availability, loop, HTTPS + CPU",
        LATER_TABLE,
        "loop network_https_cpu_bound_async",
        0.9765,
        "the published task fetched over HTTP, and the task here over HTTPS",
    ),
)

# The published rates that can be audited, with their conditions.
SLEEP = 0.28  # s

AUDITS = (
    Audit(
        "rows of sleeps",
        WHO,
        FIRST_TABLE[0],
        "25 users, 0.28 s, pools of 4",
        (
            Figure("sync", 3.55, SLEEP, 1, 1.94),
            Figure("loop", 3.54, SLEEP, 1, 5.38),
            Figure("threads", 14.20, SLEEP, 4, 1.73),
            Figure("processes", 14.22, SLEEP, 4, 1.73),
        ),
        users=25,
    ),
    Audit(
        "rows of the network",
        WHO,
        FIRST_TABLE[0],
        "25 users, with the mean response times that are published with the rates",
        (
            Figure("threads, internet", 3.29, mean_s=7.09),
            Figure("processes, internet", 3.16, mean_s=7.42),
            Figure("threads, HTTPS", 4.60, mean_s=5.31),
            Figure("processes, HTTPS", 5.07, mean_s=4.69),
            Figure("threads, HTTPS + CPU", 0.45, mean_s=31.57),
            Figure("processes, HTTPS + CPU", 1.15, mean_s=17.82),
        ),
        users=25,
    ),
    Audit(
        "later rows of sleeps",
        WHO,
        LATER_TABLE[0],
        "25 users, 0.28 s, pools of 4",
        (
            Figure("sync", 3.55, SLEEP, 1, 1.96),
            Figure("loop", 3.54, SLEEP, 1, 6.98),
            Figure("loop, split", 88.18, SLEEP, None, 0.28),
            Figure("threads", 14.24, SLEEP, 4, 1.75),
            Figure("processes", 14.24, SLEEP, 4, 1.75),
        ),
        users=25,
    ),
)


def claims(cases: Sequence[Case]) -> tuple[Claim, ...]:
    """Create the claims about these cases; the first case of a server and task counts."""
    crowds = {f"{case.server} {case.task} {case.users}": case for case in cases}
    known = {**_by_server_and_task(cases), **crowds}

    def claims_of(
        rows: Sequence[Row],
        published: tuple[str, str] = FIRST_TABLE,
        **how: Any,
    ) -> list[Claim]:
        where, how["conditions"] = published
        return [
            Claim(name, WHO, where, statement, known[one], known[other], ratio, **how)
            for name, statement, one, other, ratio in rows
        ]

    return (
        *claims_of(DIFFERENT),
        *claims_of((*LOOP, *CROWDS, *PROCESSES), LATER_TABLE),
        *claims_of(ALIKE, alike=True),
        *claims_of(FILE, work=BARE_READ),
        *claims_of(NO_HELP_FILE, alike=True, work=BARE_READ),
        *claims_of(LATER_ALIKE, LATER_TABLE, alike=True),
        *claims_of(CPU, LATER_TABLE, work=PLAIN_HTTP),
        *claims_of(MEMORY_OF, LATER_TABLE, figure=MEMORY),
    )


def availabilities(cases: Sequence[Case]) -> tuple[Availability, ...]:
    """Create the claims about these cases; the first case of a server and task counts."""
    known = _by_server_and_task(cases)
    return tuple(
        Availability(name, WHO, where, NOT_COMPLETED, known[case], share, conditions, work)
        for name, (where, conditions), case, share, work in UNAVAILABLE
    )


def _by_server_and_task(cases: Sequence[Case]) -> Mapping[str, Case]:
    return {f"{case.server} {case.task}": case for case in reversed(cases)}


CLAIMS = claims(CASES)
AVAILABILITIES = availabilities(CASES)
GROUPS = {
    "published": PUBLISHED,
    "latency": LATENCY,
    "later": LATER,
    "crowd": CROWD,
    "gil": GIL,
    "matrix": MATRIX,
    "matrix_xml": MATRIX[:3],
    "protection": PROTECTION,
    # Without CROWD: quick has one load, that of 25 users.
    "claimed": cases_of_claims(PUBLISHED + LATER + GIL, CLAIMS),
}
