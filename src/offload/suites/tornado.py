"""The tornado benchmark: long tasks on a sync server, an event loop, threads and processes."""

from offload.suites import (
    Case,
    _tornado_audits,
    _tornado_availabilities,
    _tornado_claims,
    cases_of_claims,
)

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

CLAIMS = _tornado_claims.claims(CASES)
AVAILABILITIES = _tornado_availabilities.availabilities(CASES)
AUDITS = _tornado_audits.AUDITS
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
