"""The tornado benchmark's later table: async tasks, tasks of microseconds, many users."""

from __future__ import annotations

WHERE = "README.rst of 2017-04-20, 5ef06d5"
CONDITIONS = "siege -b, 25 users unless named, 300 s, as many workers as CPUs"
DEFAULT = "one loop of async code is the best in most tests, and can be the default"
GOOD = "processes are good at CPU work and files"
SMALL = "processes are slower for tasks that take microseconds"
NO_HELP = "network and I/O run outside the GIL, so processes help little over threads"

Row = tuple[str, str, str, str, float | None]

# Name, sentence, two cases (server, task, users if given), the ratio of their published rates.
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
ALIKE: tuple[Row, ...] = (
    (
        "processes, HTTPS, later",
        NO_HELP,
        "threads network_https_sync",
        "processes network_https_sync",
        9.1 / 9.7,
    ),
    ("processes, file, later", NO_HELP, "threads file_sync", "processes file_sync", 46.9 / 46.3),
)
