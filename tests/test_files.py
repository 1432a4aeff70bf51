"""A file is replaced by a new file that nobody else can prepare or share."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from offload import files


def test_a_prepared_link_is_not_followed(tmp_path: Path) -> None:
    """In a folder that others can write to, the name of a temporary file must not be guessable."""
    victim = tmp_path / "victim"
    victim.write_text("secret")
    (tmp_path / f".facts.json.{os.getpid()}").symlink_to(victim)
    files.replace(tmp_path / "facts.json", b"{}", 0o600)
    assert victim.read_text() == "secret"
    assert (tmp_path / "facts.json").read_bytes() == b"{}"
    assert (tmp_path / "facts.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_only_a_regular_file_is_read(kind: str, tmp_path: Path) -> None:
    """Opening a pipe would wait for its writer, and the device has no end."""
    path = tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(OSError, match=r"regular|directory"):
        files.read(path)


def test_threads_that_replace_one_file_do_not_mix_their_contents(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = [bytes([65 + number]) * 200_000 for number in range(4)]
    errors: list[BaseException] = []

    def write(content: bytes) -> None:
        try:
            for _ in range(20):
                files.replace(path, content)
                assert path.read_bytes() in contents
        except BaseException as error:  # noqa: BLE001 - asserted below
            errors.append(error)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert errors == []
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_failed_write_leaves_the_old_content_and_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    files.replace(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        files.replace(path, b"new")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
