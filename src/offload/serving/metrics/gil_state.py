"""Whether this process's GIL is enabled, and which import enabled it. Standard library only.

A free-threaded build enables the GIL when it imports a module that does not declare support for
running without it, unless PYTHON_GIL=0. Python warns once, and the GIL stays enabled.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import sysconfig
import warnings
from collections.abc import Callable
from typing import Any

WARNING = re.compile(r"The global interpreter lock \(GIL\) has been enabled to load module '(.+?)'")
FROM_THE_START = ""

enabled: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)

_enabled_by = FROM_THE_START
_is_watched = False


def now() -> str | None:
    """Return None while the GIL is disabled, else the module that enabled it ("" if none)."""
    return _enabled_by if enabled() else None


def watch() -> None:
    """Watch for Python's warning that the GIL was enabled, and record the module it names."""
    global _is_watched
    if enabled() or _is_watched:
        return
    _is_watched = True
    warnings.filterwarnings("always", WARNING.pattern)
    show = warnings.showwarning

    def read_and_show(message: Warning | str, *more: Any) -> None:
        global _enabled_by
        if found := WARNING.match(str(message)):
            _enabled_by = found[1]
        show(message, *more)

    setattr(warnings, "showwarning", read_and_show)  # noqa: B010 - mypy forbids the assignment


def interpreter() -> dict[str, object]:
    """Describe this interpreter and the current state of its GIL."""
    jit = getattr(sys, "_jit", None)
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "gil_enabled": enabled(),
        "free_threaded_build": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "python_gil": os.environ.get("PYTHON_GIL"),
        "switch_interval_s": sys.getswitchinterval(),
        "jit": jit.is_enabled() if jit is not None else None,
    }
