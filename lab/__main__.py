"""Run an entry of the laboratory: python -m lab lists them all, python -m lab NAME runs one."""

from __future__ import annotations

import ast
import os
import runpy
import sys
from pathlib import Path

from lab import ROOT

sys.path[:0] = [str(ROOT / "src"), str(ROOT / "pipepool" / "src")]

from offload import interrupts  # noqa: E402 - sys.path is set above

NAME = "python -m lab"


def experiments() -> dict[str, Path]:
    """Return the files of experiments/ that can be run, by name."""
    paths = sorted((ROOT / "lab" / "experiments").rglob("*.py"))
    return {path.stem: path for path in paths if '\nif __name__ == "__main__":' in path.read_text()}


def _print_entries() -> None:
    from lab.commands import PROGRAM

    lines = {name: PROGRAM.docstring(name) for name in PROGRAM.commands}
    for name, path in experiments().items():
        lines[name] = ast.get_docstring(ast.parse(path.read_bytes())) or ""
    width = max(map(len, lines))
    for name, text in lines.items():
        print(f"{name:{width}}  {text.partition(chr(10))[0]}")
    print(f"\n{NAME} NAME --help explains one")


def main() -> None:
    """Run the entry named by the first argument, with the others as its words."""
    words = sys.argv[1:]
    interrupts.end_on_interrupt()
    os.environ.setdefault("TASK_PATH", str(ROOT))  # servers import lab.corpus as a user's module
    if not words or words[0] in ("-h", "--help"):
        _print_entries()
        return
    scripts = experiments()
    if (path := scripts.get(words[0].replace("-", "_"))) is not None:
        sys.argv = [str(path), *words[1:]]
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    from lab.commands import PROGRAM

    if words[0].replace("-", "_") not in PROGRAM.commands:
        from offload.registry.catalog import unknown

        error = unknown("lab/", words[0], [*PROGRAM.commands, *scripts], NAME)
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    sys.exit(PROGRAM.run(words))


if __name__ == "__main__":
    main()
