"""A case reads back from its text; any other text is rejected in one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offload.errors import UsageError
from offload.registry import catalog, entries
from offload.suites._case import parse_case
from tests.properties import examples

SERVERS = catalog.servers()
MAX_WORKERS = entries.MAXIMA["workers"]
MAX_PROCESSES = entries.MAXIMA["processes"]
TASKS = sorted(catalog.tasks())
PYTHONS = st.sampled_from(["3.14", "3.13t-gil", "pypy3.10", "python3"]) | st.text(
    st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=5
)
PIECES = st.sampled_from(
    ["3", "threads", "x", "16", "x0", "@", "3.14", "/", "sleep_sync", ":", "\n"]
)


@examples(25)
@given(data=st.data())
def test_a_word_names_what_it_is_made_of_and_reads_back(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(SERVERS)))
    server = SERVERS[name]
    number = [] if server.number is None else [str(server.number)]
    spelling = data.draw(st.sampled_from([name, *number, *server.also]))
    can_have = "workers" in server.settings
    workers = data.draw(st.none() | st.integers(1, MAX_WORKERS)) if can_have else None
    has_both = workers is not None and "processes" in server.settings and data.draw(st.booleans())
    if workers and not has_both:
        workers = min(workers, entries.MAXIMA[server.size or "workers"])
    processes = data.draw(st.integers(1, 4096 // workers)) if has_both and workers else None
    processes = None if processes is None else min(processes, MAX_PROCESSES)
    python, task = data.draw(st.none() | PYTHONS), data.draw(st.sampled_from(TASKS))
    p = "" if processes is None else f"x{processes}"
    x = "" if workers is None else f"x{workers}"
    at = "" if python is None else f"@{python}"
    found = parse_case(f"{spelling}{p}{x}{at}/{task}")
    assert (found.server, found.task, found.python) == (name, task, python)
    last = server.size if processes is None else "workers"
    sizes = {"processes": processes, last: workers}
    assert found.settings == {key: size for key, size in sizes.items() if size is not None}
    assert parse_case(found.name) == found


@examples(25)
@given(word=st.lists(PIECES | st.text(max_size=2), max_size=6).map("".join))
def test_any_word_is_a_case_or_one_line(word: str) -> None:
    try:
        found = parse_case(word)
    except UsageError as error:
        assert "\n" not in str(error)
        assert str(error)
    else:
        assert found.server in SERVERS
        assert found.settings.get("workers", 1) in range(1, MAX_WORKERS + 1)


@pytest.mark.parametrize("workers", [0, MAX_WORKERS + 1, 999])
def test_workers_beyond_the_bounds_are_refused(workers: int) -> None:
    assert parse_case(f"3x{MAX_WORKERS}/sleep_sync").settings == {"workers": MAX_WORKERS}
    with pytest.raises(UsageError, match=f"from 1 to {MAX_WORKERS}"):
        parse_case(f"3x{workers}/sleep_sync")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("3x0x4/sleep_sync", "processes must be from 1 to 64"),
        ("3x2x0/sleep_sync", "workers must be from 1 to 256"),
        ("3x65x4/sleep_sync", "processes must be from 1 to 64"),
        ("3x64x256/sleep_sync", "64 processes of 256 workers are 16384 workers: use at most 4096"),
        ("3x1000000x4/sleep_sync", "processes must be from 1 to 64"),
        ("4x2x8/sleep_sync", "processes has one process that accepts connections"),
        (
            "waitressx2x8/sleep_sync",
            "waitress has one process .* use one of threads, flask_gunicorn, granian_wsgi",
        ),
        ("preforkx2x8/sleep_sync", "prefork has one size, its processes: write preforkx2"),
        ("1x2x8/sleep_sync", "sync has no workers: leave x out"),
        ("3x2x8x4/sleep_sync", "no '3x2' in servers/"),
    ],
)
def test_sizes_that_a_server_cannot_have_are_refused(word: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_case(word)


def test_a_word_has_both_sizes() -> None:
    one = parse_case("gunicorn_gthreadx2x32/sleep_sync")
    assert one.settings == {"processes": 2, "workers": 32}
    assert parse_case("3x2x8-protected@3.14/sleep_sync").name == "3x2x8-protected@3.14/sleep_sync"
    assert parse_case("preforkx2/sleep_sync").settings == {"processes": 2}
    assert parse_case("4x8/sleep_sync").settings == {"workers": 8}
