"""Build an extension that does not support free threading: its import switches the GIL on."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

SOURCE = """
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "needs_gil", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_needs_gil(void) { return PyModule_Create(&module); }
"""


def build(python: str, folder: Path) -> None:
    """Build `needs_gil` for an interpreter with its headers; it needs the compiler cc."""
    (folder / "needs_gil.c").write_text(SOURCE)
    words = "import sysconfig as s; print(s.get_path('include'), s.get_config_var('EXT_SUFFIX'))"
    said = subprocess.run([python, "-c", words], capture_output=True, text=True, timeout=60)
    include, suffix = said.stdout.split()
    compiler = ["cc", "-shared", "-fPIC", "-DPy_GIL_DISABLED", f"-I{include}"]
    if sysconfig.get_platform().startswith("macosx"):
        compiler += ["-undefined", "dynamic_lookup"]
    target = str(folder / f"needs_gil{suffix}")
    subprocess.run([*compiler, str(folder / "needs_gil.c"), "-o", target], check=True, timeout=60)
