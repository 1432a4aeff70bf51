"""The number of CPUs respects CPU affinity and control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from offload import resource_limits


def group(root: Path, path: str, **files: str) -> None:
    folder = root / path
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


@pytest.mark.parametrize(
    ("quotas", "expected"),
    [
        (("max 100000\n", "max 100000\n"), None),
        (("max 100000\n", "200000 100000\n"), 2.0),
        (("150000 100000\n", "max 100000\n"), 1.5),
        (("50000 100000\n", "300000 100000\n"), 0.5),
    ],
)
def test_the_smallest_quota_of_version_2_counts(
    tmp_path: Path, quotas: tuple[str, str], expected: float | None
) -> None:
    group(tmp_path, "a", cpu__max=quotas[0])
    group(tmp_path, "a/b", cpu__max=quotas[1])
    (tmp_path / "own").write_text("0::/a/b\n")
    assert resource_limits.cpu_quota(tmp_path / "own", tmp_path) == expected


def test_a_container_sees_its_group_as_the_root(tmp_path: Path) -> None:
    group(tmp_path, ".", cpu__max="200000 100000\n")
    (tmp_path / "own").write_text("0::/docker/1234\n")
    assert resource_limits.cpu_quota(tmp_path / "own", tmp_path) == 2.0


def test_version_1_has_files_of_its_own(tmp_path: Path) -> None:
    group(tmp_path, "cpu/docker", cpu__cfs_quota_us="250000\n", cpu__cfs_period_us="100000\n")
    (tmp_path / "own").write_text("4:cpu,cpuacct:/docker\n2:memory:/docker\n")
    assert resource_limits.cpu_quota(tmp_path / "own", tmp_path) == 2.5


def test_no_groups_are_no_quota(tmp_path: Path) -> None:
    assert resource_limits.cpu_quota(tmp_path / "none", tmp_path) is None


def test_a_quota_bounds_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group(tmp_path, ".", cpu__max="50000 100000\n")
    (tmp_path / "own").write_text("0::/\n")
    monkeypatch.setattr(resource_limits, "ROOT", tmp_path)
    monkeypatch.setattr(resource_limits, "OWN", tmp_path / "own")
    assert (resource_limits.cpu_count(), resource_limits.cpu_capacity()) == (1, 0.5)
    (tmp_path / "cpu.max").write_text("6400000 100000\n")
    assert resource_limits.cpu_count() == len(os.sched_getaffinity(0))
