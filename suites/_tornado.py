"""What the tornado benchmark claims of its cases."""

from __future__ import annotations

from collections.abc import Sequence

from suites import Audit, Case, Claim, Figure
from suites._claim import MEMORY, RATE

WHO, WHERE = "pioneer", "github.com/pioneer/httpd-background-tasks, README.rst"
SLEEP = 0.28  # s
NO_HELP = "network and I/O run outside the GIL, so processes help little over threads"
DEFAULT = "one loop of async code is the best in most tests, and can be the default"
PLAIN_HTTP = "the awaited twin fetched over plain HTTP, the blocking task over HTTPS"

# Name, sentence, two cases as server and task, the ratio of their published rates.
DIFFERENT = (
    ("threads, sleep", "four serve four", "loop sleep_sync", "threads sleep_sync", 14.20 / 3.54),
    (
        "loop, split",
        "a loop whose task awaits serves all users at once",
        "loop sleep_sync",
        "loop sleep_async_split",
        88.18 / 3.54,
    ),
    (
        "processes, HTTP",
        "more on local HTTP",
        "threads network_sync_local",
        "processes network_sync_local",
        274.92 / 164.64,
    ),
    ("processes, file", "less on a file", "threads file_sync", "processes file_sync", 569 / 647.2),
    (
        "processes, HTTPS",
        "more on HTTPS",
        "threads network_https_sync",
        "processes network_https_sync",
        5.07 / 4.60,
    ),
    (
        "processes, HTTPS + CPU",
        "more on a feed parsed in Python",
        "threads network_https_cpu_bound_sync",
        "processes network_https_cpu_bound_sync",
        1.15 / 0.45,
    ),
    (
        "the same with lxml",
        "as much more were the feed parsed in C",
        "threads network_https_cpu_bound_lxml_sync",
        "processes network_https_cpu_bound_lxml_sync",
        1.15 / 0.45,
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
    ("loop, file", "threads write more", "threads file_sync", "loop file_async", 27.0 / 46.3),
    ("loop, simplehash", DEFAULT, "threads simplehash_sync", "loop simplehash_async", 1349 / 1081),
    (
        "loop : processes, simplehash",
        DEFAULT,
        "processes simplehash_sync",
        "loop simplehash_async",
        1349 / 889,
    ),
    ("loop, checksum", DEFAULT, "threads checksum_sync", "loop checksum_async", 1303 / 1029),
)
ALIKE = (
    (
        "loop = sync",
        "a blocked loop is a plain server",
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
    ("no help: file", NO_HELP, "threads file_sync", "processes file_sync", None),
)

AUDITS = (
    Audit(
        "rows of sleeps",
        WHO,
        WHERE,
        "25 users, 0.28 s, pools of 4",
        (
            Figure("sync", 3.55, SLEEP, 1, 1.94),
            Figure("loop", 3.54, SLEEP, 1, 5.38),
            Figure("threads", 14.20, SLEEP, 4, 1.73),
            Figure("processes", 14.22, SLEEP, 4, 1.73),
            Figure("loop, split", 88.18, SLEEP, None, 0.28),
        ),
        users=25,
    ),
    Audit(
        "rows of the network",
        WHO,
        WHERE,
        "25 users, with the mean response times that stand beside the rates",
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
)


def claims(cases: Sequence[Case]) -> tuple[Claim, ...]:
    """Make the claims about these cases; of several with one server and task the first is meant."""
    known = {f"{case.server} {case.task}": case for case in reversed(cases)}

    def claim(
        row: tuple[str, str, str, str, float | None],
        alike: bool = False,
        figure: str = RATE,
        work: str | None = None,
    ) -> Claim:
        name, says, one, other, ratio = row
        pair = known[one], known[other]
        return Claim(name, WHO, WHERE, says, *pair, ratio, figure, alike, work=work)

    cpu = (
        "loop, HTTPS + CPU",
        DEFAULT,
        "threads network_https_cpu_bound_sync",
        "loop network_https_cpu_bound_async",
        0.83 / 0.66,
    )
    memory = ("memory", "processes take most", "threads sleep_sync", "processes sleep_sync", None)
    return (
        *(claim(row) for row in DIFFERENT),
        *(claim(row, alike=True) for row in ALIKE),
        claim(cpu, work=PLAIN_HTTP),
        claim(memory, figure=MEMORY),
    )
