"""The certificate is renewed if it would expire during a run."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from offload.upstream import certificates


@pytest.mark.parametrize(("days", "kept"), [(0.5, False), (2, True)])
def test_expiring_certificate_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: float, kept: bool
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(certificates, "LIFE", datetime.timedelta(days=days))
        first = certificates.certificate(tmp_path).chain.read_bytes()
    assert kept == (first == certificates.certificate(tmp_path).chain.read_bytes())


@pytest.mark.parametrize("name", ["ca.pem", "server.pem", "server.key"])
@pytest.mark.parametrize("content", [b"", b"no PEM", None])
def test_spoilt_file_is_made_anew(tmp_path: Path, name: str, content: bytes | None) -> None:
    first = certificates.certificate(tmp_path).chain.read_bytes()
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    assert first != certificates.certificate(tmp_path).chain.read_bytes()
    assert certificates._is_valid(certificates.certificate(tmp_path))


def test_key_that_others_can_read_is_made_anew(tmp_path: Path) -> None:
    certificates.certificate(tmp_path).key.chmod(0o644)
    assert certificates.certificate(tmp_path).key.stat().st_mode & 0o777 == 0o600
