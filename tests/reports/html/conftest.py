"""Reports without pictures, for tests of their other parts."""

from __future__ import annotations

import pytest

from offload.reports.pictures import drawing


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the pictures of reports, which take 1 s of CPU each time."""
    monkeypatch.setattr(drawing, "is_available", lambda: False)
