"""The commands. `fab` lists them, `fab --help COMMAND` explains one, `fab list` names what runs."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "pipepool" / "src")]

from offload import interrupts  # noqa: E402 - sys.path is set above

interrupts.end_on_interrupt()

from fabric.main import program  # noqa: E402

from offload.cli.program import COMMANDS, accept  # noqa: E402 - sys.path is set above

globals().update(COMMANDS)
accept(program)
