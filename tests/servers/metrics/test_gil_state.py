"""A process reports whether its GIL is on, and which import switched it on."""

from __future__ import annotations

import warnings

import pytest

from offload.serving.metrics import own_gil

# Word for word what CPython 3.13 and 3.14 say (Python/import.c, import_enable_gil).
SAID = (
    "The global interpreter lock (GIL) has been enabled to load module '_slow.part', which has not "
    "declared that it can run safely without the GIL. To override this behavior and keep the GIL "
    "disabled (at your own risk), run with PYTHON_GIL=0 or -Xgil=0."
)


@pytest.fixture
def _off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a process whose GIL is off, and have nothing watched yet."""
    monkeypatch.setattr(own_gil, "enabled", lambda: False)
    monkeypatch.setattr(own_gil, "_enabled_by", "")
    monkeypatch.setattr(own_gil, "_is_watched", False)


@pytest.mark.usefixtures("_off")
def test_an_import_that_turns_the_gil_on_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_gil.enabled_by() is None
    with warnings.catch_warnings(record=True) as shown:
        own_gil.watch_gil()
        warnings.warn(SAID, RuntimeWarning, stacklevel=1)
    monkeypatch.setattr(own_gil, "enabled", lambda: True)
    assert own_gil.enabled_by() == "_slow.part"
    assert next(str(warning.message) for warning in shown) == SAID


def test_no_module_has_turned_on_a_gil_that_was_on_from_the_start() -> None:
    show = warnings.showwarning
    if not own_gil.enabled():
        pytest.skip("this build has no GIL")
    own_gil.watch_gil()
    assert warnings.showwarning is show
    assert (own_gil.enabled_by(), own_gil.interpreter()["gil_enabled"]) == ("", True)
