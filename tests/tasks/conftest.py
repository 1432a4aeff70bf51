"""A separate upstream for these tests; task modules read its addresses when imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from offload import tasks
from offload.upstream import Upstream, hold


@pytest.fixture(scope="session", autouse=True)
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    """The running upstream; URLs of the internet are replaced by its page, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UPSTREAM_FOLDER", str(tmp_path_factory.mktemp("upstream")))
        with hold() as holding:
            page = f"{holding.upstream.http}/page.html"
            settings = {"GOOGLE_URL": page, "EXTERNAL_URL": page}
            for name, value in (holding.upstream.environment() | settings).items():
                patch.setenv(name, value)
            for name in [
                m for m in sys.modules if m.startswith("offload.tasks.") and "._" not in m
            ]:
                patch.delitem(sys.modules, name)  # read with another environment
            patch.delitem(sys.modules, "offload.tasks._upstream", raising=False)
            tasks.resolve.cache_clear()
            yield holding.upstream
