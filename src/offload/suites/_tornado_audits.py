"""The published rates of the tornado benchmark that can be audited, with their conditions."""

from __future__ import annotations

from offload.suites import Audit, Figure, _tornado_later
from offload.suites._tornado_claims import WHERE, WHO

SLEEP = 0.28  # s

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
        ),
        users=25,
    ),
    Audit(
        "rows of the network",
        WHO,
        WHERE,
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
        _tornado_later.WHERE,
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
