"""The versions on a cluster's machines are compared by name."""

from __future__ import annotations

import pytest

from tests.installed import MISSING

pytestmark = pytest.mark.skipif(
    bool(MISSING["dask"]), reason="dask is not installed: make test-all"
)


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ({"Python": "3.13.5", "dask": "2026.8"}, None),
        ({"Python": "3.12.1", "dask": "2026.8"}, "Python 3.12.1 instead of 3.13.5"),
        ({"Python": "3.13.5"}, "dask none instead of 2026.8"),
        ({}, "Python none instead of 3.13.5, dask none instead of 2026.8"),
    ],
)
def test_the_versions_that_differ_are_named(there: dict[str, str], message: str | None) -> None:
    from offload.serving.pools.dask_cluster import versions

    assert versions.difference({"Python": "3.13.5", "dask": "2026.8"}, there) == message


def test_a_process_knows_its_own_versions() -> None:
    from offload.serving.pools.dask_cluster import versions

    own = versions.own()
    assert {"Python", "dask", "distributed", "offload", "pipepool"} <= own.keys()
    assert versions.difference(own, own) is None
