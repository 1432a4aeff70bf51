"""The commands pythons and completion."""

from __future__ import annotations

from offload import options
from offload.cli.program import command
from offload.options import arguments


@command("Maintain")
def pythons() -> None:
    """List the interpreters that can run servers, and how to install others."""
    from offload.engine.server import broken_names, find_interpreters

    for python in find_interpreters():
        gil = "GIL" if python.gil_enabled else "no GIL"
        print(f"{python.name:6}  {python.version:8}  {gil:6}  {python.source:8}  {python.path}")
    for name, path in broken_names().items():
        print(f"{name:6}  {'missing':16}  {'PYTHONS':8}  {path}")
    print(
        "\nSelect one for a server by python=3.14, for a case by 3@3.14/sleep_sync; 3.13t-gil and"
    )
    print("3.13t-nogil are a free-threaded build with PYTHON_GIL=1 and =0. To install others:")
    print("  uv python install 3.14t            or pyenv install 3.14t")
    print("  scripts/install/python_from_debian 3.14    on Debian: newer packages, kept separately")
    print("  scripts/install/python_free_threaded 3.13  on Debian: built from the source package")
    print("  PYTHONS=3.14=/path/of/python       adds one in another place")


@command("Maintain")
def completion(
    shell: options.CompletionShell = "bash",
) -> None:
    """Print the script by which a shell completes commands.

    Example: eval "$(offload completion bash)"
    """
    from offload.cli.completion import SCRIPTS

    arguments.one_of("shell", shell, *SCRIPTS)
    print(SCRIPTS[shell], end="")
