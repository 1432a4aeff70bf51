"""check_advice refuses to start if it could not end."""

from __future__ import annotations

import pytest

from lab.commands import check_advice
from lab.corpus import FOLDS, task_name
from offload.errors import MachineError


def test_missing_packages_are_named_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tasks = [task_name(name) for name in ("formats:orjson_export", "generated:wait_5")]
    monkeypatch.setattr(check_advice, "find_spec", lambda package: None)
    with pytest.raises(MachineError, match=r"need brotli, .*, zstandard.*: make lab") as found:
        check_advice._check_packages(tasks)
    assert found.value.exit_code == 3


def test_functions_without_packages_need_none() -> None:
    own = [task_name(name) for fold in FOLDS for name in fold if name.startswith("generated:")]
    assert own
    check_advice._check_packages(own)
