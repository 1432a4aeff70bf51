"""The corpus: functions on which the advice is checked, divided into folds and a tuning set.

Each public function of a module is one that a handler would call: it takes no arguments and returns
the same bytes each time. Servers import it like a user's own function; TASK_PATH is the checkout.
PACKAGES of a module are its imports besides the standard library. Each of the FOLDS is used for one
check, when the model of the advice is considered complete; the model is tuned with the functions of
`tuning_set` only. Importing this package imports no module of it.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offload.registry.entries import Entry

SEED = "offload corpus, 2026: "
FOLD_SIZE = 10
# Frozen: folds 1 to 3 depend on this list. Never remove a function.
FUNCTIONS = (
    "arrays:matrix_product",
    "arrays:linear_system",
    "arrays:sorted_numbers",
    "arrays:spectrum",
    "arrays:small_arrays",
    "data:json_export",
    "data:json_import",
    "data:csv_totals",
    "data:zlib_archive",
    "data:text_changes",
    "data:invoice_total",
    "database:sqlite_lookup",
    "database:sqlite_report",
    "database:sqlite_scan",
    "database:sqlite_write",
    "database:sqlite_memory",
    "database:sqlite_shared_connection",
    "documents:excel_export",
    "documents:excel_import",
    "documents:pdf_invoice",
    "documents:pdf_text",
    "formats:orjson_export",
    "formats:pydantic_orders",
    "formats:msgpack_cache",
    "formats:yaml_settings",
    "formats:dateutil_calendar",
    "formats:networkx_routes",
    "formats:brotli_page",
    "formats:zstandard_page",
    "generated:wait_5",
    "generated:wait_50",
    "generated:wait_500",
    "generated:python_quarter",
    "generated:python_1",
    "generated:python_5",
    "generated:python_50",
    "generated:python_300",
    "generated:one_c_call_50",
    "generated:native_1",
    "generated:native_5",
    "generated:native_50",
    "generated:wait_5_python_1",
    "generated:wait_50_python_5",
    "generated:wait_50_python_50",
    "generated:wait_200_python_5",
    "generated:wait_5_native_50",
    "generated:wait_50_native_5",
    "generated:python_5_native_50",
    "generated:wait_20_python_5_native_5",
    "generated:python_1_sends_1mb",
    "generated:wait_20_sends_4mb",
    "generated:native_5_fills_50mb",
    "generated:lock_wait_5_outside_20",
    "generated:lock_python_5_outside_20",
    "generated:lock_native_5",
    "generated:file_lock_wait_5_outside_20",
    "generated:file_lock_python_5",
    "generated:wait_20_lognormal",
    "generated:python_5_lognormal",
    "generated:wait_20_slow_tenth",
    "generated:python_5_slow_tenth",
    "generated:slow_setup",
    "generated:async_wait_50",
    "generated:async_wait_50_python_5",
    "generated:async_blocks_20",
    "hashing:sha256_upload",
    "hashing:pbkdf2_password",
    "hashing:scrypt_password",
    "hashing:hmac_tokens",
    "images:thumbnail",
    "images:blurred_png",
    "images:line_chart",
    "images:qr_code",
    "orm:sqlalchemy_orders",
    "orm:sqlalchemy_small_pool",
    "orm:aiosqlite_report",
    "passwords:bcrypt_password",
    "passwords:argon2_password",
    "passwords:jwt_tokens",
    "passwords:encrypted_document",
    "slow_import:small_work",
    "subprocesses:true_program",
    "subprocesses:sort_program",
    "subprocesses:python_program",
    "subprocesses:temporary_file",
    "subprocesses:awaited_program",
    "tables:pandas_report",
    "tables:pandas_csv_import",
    "text:jinja2_table",
    "text:markdown_page",
    "text:regex_redacted_log",
    "text:pygments_listing",
    "text:nh3_comments",
    "text:rapidfuzz_search",
    "traps:leaks",
    "traps:threads_in_each_call",
    "traps:threads_of_the_process",
    "traps:prints",
    "traps:fails_sometimes",
    "traps:unsafe_in_threads",
    "traps:main_thread_only",
    "traps:runs_its_own_loop",
    "traps:polls",
    "traps:collects_garbage",
    "web:requests_page",
    "web:requests_slow_service",
    "web:requests_three_services",
    "web:requests_feed_titles",
    "web:requests_retries",
    "web:requests_rate_limited",
    "web:requests_small_pool",
    "web:httpx_new_client",
    "web:httpx_async_services",
    "web:requests_in_coroutine",
    "xml:etree_feed",
    "xml:feedparser_entries",
    "xml:lxml_table",
    "xml:lxml_transform",
)
# Frozen: written after folds 1 to 3 were used; fold 4 depends on this list.
SECOND_LIST = (
    "data:sorted_orders",
    "data:email_message",
    "data:gzip_import",
    "database:sqlite_search",
    "formats:orjson_import",
    "generated:wait_10_python_5",
    "generated:wait_100_native_5",
    "generated:wait_10_python_2_native_2",
    "generated:python_20",
    "generated:native_20",
    "generated:wait_5_sends_1mb",
    "generated:lock_python_1_outside_5",
    "generated:python_10_lognormal",
    "generated:wait_50_lognormal",
    "generated:async_wait_20_python_1",
    "hashing:blake2_upload",
    "images:rotated_jpeg",
    "passwords:ed25519_receipts",
    "subprocesses:gzip_program",
    "tables:pandas_join",
    "text:jinja2_letters",
    "web:requests_two_services",
    "web:httpx_shared_client",
    "xml:lxml_export",
)
# Frozen: written after fold 4 was used; fold 5 depends on this list.
THIRD_LIST = (
    "arrays:histogram",
    "data:csv_export",
    "data:pickled_session",
    "data:bz2_backup",
    "database:sqlite_many_statements",
    "formats:pydantic_export",
    "generated:wait_20_python_2",
    "generated:wait_30_native_10",
    "generated:wait_150",
    "generated:python_2_native_10",
    "generated:python_10_sends_200kb",
    "generated:lock_wait_2_outside_10",
    "generated:file_lock_wait_2_outside_10",
    "generated:wait_30_slow_tenth",
    "generated:async_wait_30_native_5",
    "generated:async_blocks_5",
    "hashing:sha3_blocks",
    "images:watermarked_crop",
    "passwords:sealed_messages",
    "subprocesses:checksum_program",
    "tables:pandas_pivot",
    "text:word_counts",
    "web:httpx_slow_service",
    "web:requests_page_links",
    "xml:lxml_sitemap",
)
# How many folds are drawn from each list
FOLDS_PER_LIST = {FUNCTIONS: 3, SECOND_LIST: 1, THIRD_LIST: 1}
# Frozen: what draw_folds returned for each of these lists before they were first measured.
FOLDS = (
    (
        "images:qr_code",
        "text:regex_redacted_log",
        "web:requests_feed_titles",
        "web:requests_in_coroutine",
        "generated:wait_50_native_5",
        "passwords:encrypted_document",
        "generated:python_5_lognormal",
        "web:requests_retries",
        "traps:polls",
        "web:requests_slow_service",
    ),
    (
        "generated:async_wait_50",
        "generated:file_lock_wait_5_outside_20",
        "generated:one_c_call_50",
        "web:requests_small_pool",
        "subprocesses:awaited_program",
        "hashing:hmac_tokens",
        "subprocesses:sort_program",
        "generated:wait_20_python_5_native_5",
        "traps:runs_its_own_loop",
        "generated:lock_native_5",
    ),
    (
        "text:pygments_listing",
        "generated:async_blocks_20",
        "web:requests_rate_limited",
        "tables:pandas_csv_import",
        "generated:wait_20_sends_4mb",
        "database:sqlite_report",
        "generated:wait_5_native_50",
        "traps:threads_of_the_process",
        "generated:python_5_slow_tenth",
        "orm:aiosqlite_report",
    ),
    (
        "generated:wait_50_lognormal",
        "tables:pandas_join",
        "generated:wait_5_sends_1mb",
        "generated:wait_100_native_5",
        "data:email_message",
        "generated:native_20",
        "data:sorted_orders",
        "passwords:ed25519_receipts",
        "generated:async_wait_20_python_1",
        "web:httpx_shared_client",
    ),
    (
        "generated:async_blocks_5",
        "generated:python_10_sends_200kb",
        "xml:lxml_sitemap",
        "generated:async_wait_30_native_5",
        "images:watermarked_crop",
        "generated:wait_150",
        "data:bz2_backup",
        "formats:pydantic_export",
        "generated:wait_20_python_2",
        "generated:wait_30_native_10",
    ),
)
# Functions of the tuning set for which answers are repeated. A call takes at most a few ms, so the
# overheads of the strategies matter, and most of these functions have a single fastest strategy.
SHORT_CALLS = (
    "generated:python_quarter",
    "generated:python_1",
    "generated:native_1",
    "generated:python_1_sends_1mb",
    "generated:wait_5",
    "generated:wait_5_python_1",
    "slow_import:small_work",
    "database:sqlite_lookup",
    "formats:orjson_export",
    "formats:msgpack_cache",
)


def draw_folds(functions: tuple[str, ...], count: int) -> tuple[tuple[str, ...], ...]:
    """Return `count` folds: the functions with the smallest seeded hashes, FOLD_SIZE in each."""
    drawn = sorted(functions, key=_hash)
    starts = range(0, count * FOLD_SIZE, FOLD_SIZE)
    return tuple(tuple(drawn[start : start + FOLD_SIZE]) for start in starts)


def tuning_set() -> tuple[str, ...]:
    """Return the functions that are not in any fold."""
    held_out = {name for fold in FOLDS for name in fold}
    return tuple(name for each in FOLDS_PER_LIST for name in each if name not in held_out)


def task_name(function: str) -> str:
    """Return the task name of a function, such as `lab.corpus.text:markdown_page`."""
    return f"{__name__}.{function}"


def entries() -> dict[str, Entry]:
    """Return all functions by their task names; their files are read, not imported."""
    from offload.registry import entries as registry

    found: dict[str, Entry] = {}
    for path in registry.files(Path(__file__).parent):
        for entry in registry.read_functions(path):
            name = task_name(f"{path.stem}:{entry.name}")
            found[name] = replace(entry, name=name)
    return found


def _hash(function: str) -> str:
    return hashlib.sha256(f"{SEED}{function}".encode()).hexdigest()
