"""Limits of control groups of both versions are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from offload import resource_limits

LIMIT = 512 << 20
UNLIMITED = "9223372036854771712\n"  # of version 1: the largest multiple of a page


@pytest.mark.parametrize(
    ("own", "files"),
    [
        ("0::/a/b\n", {"a/memory.max": f"{LIMIT}\n", "a/b/memory.max": "max\n"}),
        ("0::/a/b\n", {"a/memory.max": "max\n", "a/b/memory.max": f"{LIMIT}\n"}),
        ("0::/docker/1\n", {"memory.max": f"{LIMIT}\n"}),  # a container sees its group as the root
        (
            "4:memory:/docker/1\n0::/\n",
            {
                "memory/memory.limit_in_bytes": UNLIMITED,
                "memory/docker/1/memory.limit_in_bytes": f"{LIMIT}\n",
            },
        ),
        ("4:cpu,memory:/docker/1\n", {"memory/memory.limit_in_bytes": f"{LIMIT}\n"}),
    ],
)
def test_the_smallest_limit_of_memory_counts(
    own: str, files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "own").write_text(own)
    monkeypatch.setattr(resource_limits, "ROOT", tmp_path / "root")
    monkeypatch.setattr(resource_limits, "OWN", tmp_path / "own")
    assert resource_limits.memory_mib() == 512


def test_without_a_limit_all_memory_of_the_machine_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_limits, "OWN", tmp_path / "own")
    all_mib = resource_limits.memory_mib()
    assert all_mib > 256
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text(UNLIMITED)
    (tmp_path / "own").write_text("4:memory:/\n")
    monkeypatch.setattr(resource_limits, "ROOT", tmp_path)
    assert resource_limits.memory_mib() == all_mib


def test_limits_of_another_controller_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "pids").mkdir()
    (tmp_path / "pids" / "pids.max").write_text("100\n")
    (tmp_path / "own").write_text("4:pids:/\n3:memory:/\n")
    assert resource_limits.cgroup_limits(
        "pids", "pids.max", own=tmp_path / "own", root=tmp_path
    ) == [100]
    assert (
        resource_limits.cgroup_limits("memory", "pids.max", own=tmp_path / "own", root=tmp_path)
        == []
    )
