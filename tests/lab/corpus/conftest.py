"""Call corpus functions in separate processes, one process per module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offload.registry import places
from offload.upstream import Upstream, hold


@pytest.fixture(scope="session")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    """A separate upstream for these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UPSTREAM_FOLDER", str(tmp_path_factory.mktemp("upstream")))
        holding = hold()
    with holding:
        yield holding.upstream


@pytest.fixture(scope="session")
def environment(held: Upstream) -> dict[str, str]:
    """The environment in which servers call tasks."""
    return held.environment() | places.import_path()
