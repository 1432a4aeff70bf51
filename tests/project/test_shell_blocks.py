"""The shell commands in README and docs/ run unchanged, or the page has the reason why not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from offload.engine import server
from tests.commands import free_port
from tests.project.shell_blocks import Block, blocks, prepare, script, unclear

LIMIT = 1500  # s for the commands of a block; most take a minute or two
RUN = [block for block in blocks() if block.reason is None]


def parameter(block: Block) -> object:
    marks = [] if block.is_fast else [pytest.mark.slow, pytest.mark.timeout(LIMIT + 60)]
    return pytest.param(block, id=block.name, marks=marks)


def test_every_block_is_run_or_has_a_reason() -> None:
    assert unclear() == []
    left_out = [block for block in blocks() if block.reason is not None]
    assert [block.name for block in left_out if len(block.reason or "") < 15] == []
    assert len(RUN) >= 12
    assert len(RUN) >= len(left_out)
    assert sum(block.is_fast for block in RUN) >= 3


@pytest.mark.server
@pytest.mark.parametrize("block", [parameter(block) for block in RUN])
def test_the_commands_of_a_block_run(
    block: Block, a_copy: Path, start: Callable[..., server.Server]
) -> None:
    if block.missing:
        pytest.skip(f"{' and '.join(block.missing)} cannot run here: make test-all")
    if "PID" in block.text and may_not_read():
        pytest.skip("Yama forbids to read a process that is no child: run it as root")
    prepare(a_copy, block)
    port, pid = free_port(), 0
    if "PID" in block.text:
        watched = start("threads", "noop_sync")
        port, pid = int(str(watched.facts["port"])), watched.process.pid
    ended = run(script(block, port, pid), a_copy)
    assert ended.returncode == 0, f"{ended.stdout[-2000:]}\n{ended.stderr[-3000:]}"


def may_not_read() -> bool:
    """Whether the kernel lets a user read only the memory of own children."""
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    return os.getuid() != 0 and scope.exists() and scope.read_text().strip() != "0"


def run(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in a folder, whose commands are first on PATH."""
    own = {key: value for key, value in os.environ.items() if key != "RESULTS"}
    path = f"{folder}/.venv/bin:{Path(sys.executable).parent}:{own['PATH']}"
    return subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env={**own, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )


@pytest.mark.server
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fab no_such_command", "exit code 2 of: fab no_such_command"),
        ("fab run_server:no_such_server", "not ready: fab run_server:no_such_server"),
    ],
)
def test_a_command_that_fails_is_found(text: str, said: str, a_copy: Path) -> None:
    block = Block(Path(__file__), 1, text, None)
    prepare(a_copy, block)
    ended = run(script(block, free_port(), 0), a_copy)
    assert ended.returncode != 0
    assert said in ended.stderr
