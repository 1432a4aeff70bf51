"""The words of `fab`: they are rewritten to commands of `offload`, which lists them."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent / name) for name in ("src", "pipepool/src")]

from offload import interrupts  # noqa: E402 - sys.path is set above

interrupts.end_on_interrupt()
import fabric.main  # noqa: E402

from offload.cli import fab  # noqa: E402

fab.take_over(fabric.main.program)
