"""A case reads back from its text; any other text is rejected in one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offload.errors import UsageError
from offload.registry import catalog
from offload.suites._case_syntax import MAX_WORKERS, case
from tests.properties import examples

SERVERS = catalog.servers()
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
    python, task = data.draw(st.none() | PYTHONS), data.draw(st.sampled_from(TASKS))
    x = "" if workers is None else f"x{workers}"
    at = "" if python is None else f"@{python}"
    found = case(f"{spelling}{x}{at}/{task}")
    assert (found.server, found.task, found.python) == (name, task, python)
    assert found.settings == ({} if workers is None else {"workers": workers})
    assert case(found.name) == found


@examples(25)
@given(word=st.lists(PIECES | st.text(max_size=2), max_size=6).map("".join))
def test_any_word_is_a_case_or_one_line(word: str) -> None:
    try:
        found = case(word)
    except UsageError as error:
        assert "\n" not in str(error)
        assert str(error)
    else:
        assert found.server in SERVERS
        assert found.settings.get("workers", 1) in range(1, MAX_WORKERS + 1)


@pytest.mark.parametrize("workers", [0, MAX_WORKERS + 1, 999])
def test_workers_beyond_the_bounds_are_refused(workers: int) -> None:
    assert case(f"3x{MAX_WORKERS}/sleep_sync").settings == {"workers": MAX_WORKERS}
    with pytest.raises(UsageError, match=f"from 1 to {MAX_WORKERS}"):
        case(f"3x{workers}/sleep_sync")
