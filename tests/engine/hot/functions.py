"""Functions that spend nearly all of their time in one line."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
import time

import requests
from lxml import etree

LOCK = threading.Lock()
TEXT = json.dumps([{"name": f"item {number}", "price": number} for number in range(5_000)])
XML = b"<list>" + b"".join(b"<item a='%d'>text</item>" % n for n in range(40_000)) + b"</list>"
QUERY = "with recursive n(x) as (select 1 union all select x + 1 from n where x < 60000) "
QUERY += "select sum(x) from n"
WORDS = "a" * 21 + "!"
PATTERN = re.compile(r"(a|aa)+$")
NUMBERS = list(range(1_000_000))


def python_loop() -> str:
    total = 0
    for number in range(100_000):
        total += number * number % 97  # hot: python_loop
    return str(total)


def json_parse() -> str:
    found = json.loads(TEXT)  # hot: json_parse
    return str(len(found))


def lxml_parse() -> str:
    tree = etree.fromstring(XML)  # hot: lxml_parse
    return str(len(tree))


def sqlite_query() -> str:
    connection = sqlite3.connect(":memory:")
    [(total,)] = connection.execute(QUERY)  # hot: sqlite_query
    connection.close()
    return str(total)


def lock_held() -> str:
    with LOCK:  # hot: lock_held
        _write()
    return "written"


def _write() -> None:
    time.sleep(0.02)


async def sleep_on_loop() -> str:
    time.sleep(0.02)  # hot: sleep_on_loop
    return "slept"


async def requests_on_loop() -> str:
    response = requests.get(os.environ["HOT_URL"], timeout=5)  # hot: requests_on_loop
    return response.text


def backtracking() -> str:
    found = PATTERN.match(WORDS)  # hot: backtracking
    return str(found)


def c_call() -> str:
    total = sum(NUMBERS)  # hot: c_call
    return str(total)


def recursion() -> str:
    return str(_fibonacci(23))


def _fibonacci(number: int) -> int:
    if number < 2:
        return number
    return _fibonacci(number - 1) + _fibonacci(number - 2)  # hot: recursion
