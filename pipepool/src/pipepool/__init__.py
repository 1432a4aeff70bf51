"""A process pool for event loops: `PipePool`, and `PipeExecutor` for concurrent.futures."""

import sys

if sys.platform == "win32":
    raise ImportError("pipepool needs socket pairs and fork: it runs on Linux and macOS only")

from pipepool.exceptions import BrokenWorker, QueueFull, RemoteError, TaskExit
from pipepool.executor import PipeExecutor
from pipepool.pool import PipePool, Stats
from pipepool.scheduler import TaskMetrics

__all__ = [
    "BrokenWorker",
    "PipeExecutor",
    "PipePool",
    "QueueFull",
    "RemoteError",
    "Stats",
    "TaskExit",
    "TaskMetrics",
]
__version__ = "0.1.0"
