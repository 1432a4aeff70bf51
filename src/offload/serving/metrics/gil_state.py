"""Whether this process's GIL is on, and which import turned it on. Standard library only.

A build without the GIL turns it on for a module that does not say that it can do without, unless
PYTHON_GIL=0 forbids it; it warns of that once, and nothing turns it off again.
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

SAID = re.compile(r"The global interpreter lock \(GIL\) has been enabled to load module '(.+?)'")
FROM_THE_START = ""

enabled: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)

_turned_on_by = FROM_THE_START
_is_watched = False


def now() -> str | None:
    """Give None while the GIL is off, and when it is on the module that did it, if one did."""
    return _turned_on_by if enabled() else None


def watch() -> None:
    """Read from now on, of the warnings that are shown, which module turned the GIL on."""
    global _is_watched
    if enabled() or _is_watched:
        return
    _is_watched = True
    warnings.filterwarnings("always", SAID.pattern)
    show = warnings.showwarning

    def read_and_show(message: Warning | str, *more: Any) -> None:
        global _turned_on_by
        if found := SAID.match(str(message)):
            _turned_on_by = found[1]
        show(message, *more)

    setattr(warnings, "showwarning", read_and_show)  # noqa: B010 - a name that mypy protects


def interpreter() -> dict[str, object]:
    """Name the interpreter that runs here, and its GIL now."""
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
