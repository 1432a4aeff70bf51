"""A server reports the address of its GIL, or the reason why it cannot."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from offload.engine import server
from offload.engine.server import user_paths
from offload.serving.metrics import own_gil
from tests import ROOT

PYTHONS = {"own": sys.executable, **user_paths()}
FIND = """
import json
from offload.serving.metrics import own_gil
print(json.dumps(own_gil.address_facts()))
"""
Start = Callable[..., server.Server]


@pytest.mark.server
@pytest.mark.parametrize("name", PYTHONS)
def test_every_python_finds_its_gil(name: str) -> None:
    words = [PYTHONS[name], "-c", FIND]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=20)
    facts = json.loads(done.stdout)
    assert "gil_address_error" not in facts
    assert facts["gil_address"]["address"] % 4 == 0


@pytest.mark.server
@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_every_worker_process_reports_the_address_of_its_gil(method: str, start: Start) -> None:
    facts = start("processes", "noop_sync", workers=3, start_method=method).facts
    pids = [worker["gil_address"]["pid"] for worker in facts["worker_gil_addresses"]]  # type: ignore[attr-defined]
    assert sorted(pids) == facts["worker_pids"]


def test_the_switch_interval_is_as_it_was() -> None:
    before = sys.getswitchinterval()
    assert isinstance(own_gil.find_address(), own_gil.GilAddress)
    assert sys.getswitchinterval() == before


def test_what_is_no_linux_or_no_cpython_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.implementation, "name", "pypy")
    assert own_gil.find_address() == "pypy is not a 64-bit CPython"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert own_gil.address_facts() == {
        "gil_address": None,
        "gil_address_error": "darwin is not Linux",
    }


def test_a_canary_that_is_not_found_is_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_gil, "SEARCHED", 8)
    monkeypatch.setattr(own_gil, "PAGE", 8)
    assert str(own_gil.find_address()).startswith("layout not recognised: 0 places in the ")


@pytest.mark.parametrize(
    ("values", "doubt"),
    [
        ([(0, 1)], "locked reads 0 while the GIL is held"),
        ([(1, 1)] * 51, "locked is never 0 while the GIL is released"),
        ([(1, 1), (0, 1), (1, 1)], "the switch count grew by 0 while two threads alternated"),
    ],
)
def test_a_word_that_does_not_behave_is_no_word(
    values: list[tuple[int, int]], doubt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_gil, "_values", lambda *_, **__: values.pop(0))
    assert own_gil.find_address() == f"layout not recognised: {doubt}"


def test_a_gil_that_is_off_is_found_by_its_interval_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    there = own_gil.find_address()
    monkeypatch.setattr(own_gil, "enabled", lambda: False)
    assert own_gil.find_address() == "layout not recognised: locked reads 1 while the GIL is off"
    monkeypatch.setattr(own_gil, "_values", lambda *_, **__: (0, 0))
    assert own_gil.find_address() == there


def test_memory_that_the_kernel_refuses_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_gil, "_state", lambda: ("runtime", 8))
    assert str(own_gil.find_address()).endswith("or start a thread: [Errno 14] Bad address")


def test_own_memory_is_read_with_and_without_the_gil() -> None:
    text = b"a text of its own"
    address = id(text) + bytes.__basicsize__ - 1
    assert [own_gil.read_memory(address, len(text), held) for held in (True, False)] == [text, text]
