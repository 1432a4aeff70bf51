"""A process pool for event loops: `PipePool`, and `PipeExecutor` for concurrent.futures."""

import importlib
import sys
from typing import TYPE_CHECKING

if sys.platform == "win32":
    raise ImportError("pipepool needs socket pairs and fork: it runs on Linux and macOS only")

if TYPE_CHECKING:
    from pipepool.exceptions import BrokenWorker, QueueFull, RemoteError, TaskExit
    from pipepool.executor import PipeExecutor
    from pipepool.pool import PipePool
    from pipepool.scheduling.accounting import TaskMetrics
    from pipepool.stats import Stats

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

_MODULES = {
    "PipeExecutor": "executor",
    "PipePool": "pool",
    "Stats": "stats",
    "TaskMetrics": "scheduling.accounting",
}

if not TYPE_CHECKING:  # otherwise a type checker would accept every name

    def __getattr__(name: str) -> object:
        """Import a public name at its first use: the fork server needs none of them."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = importlib.import_module(f"pipepool.{_MODULES.get(name, 'exceptions')}")
        globals()[name] = found = getattr(module, name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
