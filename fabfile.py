"""The commands. `fab` lists them, `fab --help COMMAND` explains one, `fab list` names what runs."""

from __future__ import annotations

from fabric.main import program

import spelling
from commands import (
    COMMANDS,
    GROUPS,
    benchmark,
    load_test,
    maintain,
    question,
    serve,
    start,
    understand,
)

__all__ = ["benchmark", "load_test", "maintain", "question", "serve", "start", "understand"]

globals().update(COMMANDS)


def _print_commands() -> None:
    commands = program.collection.tasks
    width = max(len(name) for name in commands)
    for group, names in GROUPS.items():
        print(group)
        for name in names:
            print(f"  {name:{width}}  {(commands[name].__doc__ or '').partition(chr(10))[0]}")
        print()
    print("fab --help COMMAND explains one; arguments are written run_server:3,task,port=9000")


spelling.accept(program, _print_commands)
