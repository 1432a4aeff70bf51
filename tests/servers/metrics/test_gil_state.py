"""A process reports whether its GIL is on, and which import switched it on."""

from __future__ import annotations

import warnings

import pytest

from offload.serving.metrics import gil_state

# Word for word what CPython 3.13 and 3.14 say (Python/import.c, import_enable_gil).
SAID = (
    "The global interpreter lock (GIL) has been enabled to load module '_slow.part', which has not "
    "declared that it can run safely without the GIL. To override this behavior and keep the GIL "
    "disabled (at your own risk), run with PYTHON_GIL=0 or -Xgil=0."
)


@pytest.fixture
def _off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a process whose GIL is off, and have nothing watched yet."""
    monkeypatch.setattr(gil_state, "enabled", lambda: False)
    monkeypatch.setattr(gil_state, "_enabled_by", "")
    monkeypatch.setattr(gil_state, "_is_watched", False)


@pytest.mark.usefixtures("_off")
def test_an_import_that_turns_the_gil_on_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gil_state.now() is None
    with warnings.catch_warnings(record=True) as shown:
        gil_state.watch()
        warnings.warn(SAID, RuntimeWarning, stacklevel=1)
    monkeypatch.setattr(gil_state, "enabled", lambda: True)
    assert gil_state.now() == "_slow.part"
    assert next(str(warning.message) for warning in shown) == SAID


def test_no_module_has_turned_on_a_gil_that_was_on_from_the_start() -> None:
    show = warnings.showwarning
    if not gil_state.enabled():
        pytest.skip("this build has no GIL")
    gil_state.watch()
    assert warnings.showwarning is show
    assert (gil_state.now(), gil_state.interpreter()["gil_enabled"]) == ("", True)
